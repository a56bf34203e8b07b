// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import "fmt"

// sizeOf all annotations as the API server counts them.
func sizeOf(annotations object) int {
	size := 0
	for key, value := range annotations {
		text, _ := value.(string)
		size += len(key) + len(text)
	}
	return size
}

// fit drops memories that make the annotations larger than the API server takes: it would refuse the converted object, and with it every
// list that the object is in. The memory of the status goes first, since controllers write the status again. That of the spec leaves a
// mark: what it held is still in the object that is stored, and admission refuses to write the converted one; see Dropped. Admission
// refuses an object that would not fit before it is stored, so this is for objects that were stored past it; see Fits.
func fit(meta object, from string) {
	annotations := objectAt(meta, "annotations")
	if sizeOf(annotations) > MaxAnnotations && textAt(annotations, AnnotationStatus) != "" {
		setAnnotation(meta, AnnotationStatus, "")
	}
	if sizeOf(annotations) > MaxAnnotations && textAt(annotations, AnnotationSpec) != "" {
		setAnnotation(meta, AnnotationSpec, droppedMemory(from))
	}
}

// headRoom, in bytes, is what an object leaves free of its annotations when it is written, for what controllers add to it.
const headRoom = 8 * 1024

// Fits explains why an object of either version could not be kept in the other without loss: what only its own version can say would not
// fit into the annotations of the other. The error names the path and the fix.
func Fits(raw []byte) error {
	in, err := readObject(raw, Beta)
	if err != nil {
		return err
	}
	if textAt(in, "kind") != KindDeployment {
		return nil
	}
	to := Beta
	if textAt(in, "apiVersion") == group+Beta {
		to = Alpha
	}
	meta, _ := clone(in["metadata"]).(object)
	if meta == nil {
		meta = object{}
	}
	out := object{}
	for i := range parts {
		p := &parts[i]
		before := textAt(objectAt(meta, "annotations"), p.annotation)
		p.convert(in, out, meta, to, true)
		text := textAt(objectAt(meta, "annotations"), p.annotation)
		if text == before {
			continue
		}
		if _, err := readMemory(text, Other(to)); err != nil {
			return fmt.Errorf("metadata.annotations: what %s cannot say of the %s is kept in %s, and %w: write it in %s, or shorten it",
				to, p.field, p.annotation, err, onePlace(to))
		}
	}
	annotations := objectAt(meta, "annotations")
	size, kept := sizeOf(annotations), len(textAt(annotations, AnnotationSpec))+len(textAt(annotations, AnnotationStatus))
	if size <= MaxAnnotations-headRoom || kept == 0 && size <= MaxAnnotations {
		return nil
	}
	return fmt.Errorf("metadata.annotations: %d bytes, of which %d keep what %s cannot say of the spec and the status; %d are allowed: "+
		"shorten the annotations (kubectl apply --server-side records none of its own), or write the pods' settings in one place, %s",
		size, kept, to, MaxAnnotations-headRoom, onePlace(to))
}

// Dropped reports whether the annotations of an object of a version had no room for what only the other version can say of its spec.
// Written in this version, the object would lose that.
func Dropped(annotations map[string]string, version string) bool {
	m, err := readMemory(annotations[AnnotationSpec], Other(version))
	return err == nil && m != nil && m.dropped
}

func onePlace(to string) string {
	if to == Beta {
		return "spec.services[*].extraPodSpec.mainContainer"
	}
	return "spec.components[*].podTemplate"
}

// Problem describes what is wrong with the memories that an object of a version carries: they are ignored. It is empty if nothing is.
func Problem(annotations map[string]string, version string) string {
	for _, key := range []string{AnnotationSpec, AnnotationStatus} {
		if _, err := readMemory(annotations[key], Other(version)); err != nil {
			return fmt.Sprintf("metadata.annotations[%s] %s: it is ignored; remove the annotation", key, err)
		}
	}
	return ""
}
