// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import "fmt"

// sizeOf returns the size of all annotations as the API server counts it.
func sizeOf(annotations object) int {
	size := 0
	for key, value := range annotations {
		text, _ := value.(string)
		size += len(key) + len(text)
	}
	return size
}

// fit drops memories if the annotations exceed the API server's limit, because the API server would refuse the converted object, and every
// list that contains it. fit drops the memory of the status first, because controllers write the status again. It replaces the memory of
// the spec with a memory that contains only the field dropped. Admission refuses writes of such an object, because the stored object still
// has the content; see Dropped. Admission also refuses objects that would not fit, so fit concerns only objects that were stored without
// admission; see Fits.
func fit(meta object, from string) {
	annotations := objectAt(meta, "annotations")
	if sizeOf(annotations) > MaxAnnotations && textAt(annotations, AnnotationStatus) != "" {
		setAnnotation(meta, AnnotationStatus, "")
	}
	if sizeOf(annotations) > MaxAnnotations && textAt(annotations, AnnotationSpec) != "" {
		setAnnotation(meta, AnnotationSpec, droppedMemory(from))
	}
}

// headRoom is the space, in bytes, that the annotations of a written object have to leave for annotations that controllers add.
const headRoom = 8 * 1024

// Fits returns an error if an object cannot be converted without loss, because the fields that only its version has would not fit into the
// annotations of the converted object. The error names the path and the fix.
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

// Dropped reports whether an object of a version lacks the memory of the other version's spec, because its annotations had no space. A
// write in this version would lose these fields.
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

// Problem returns the reason why the memories in the annotations of an object cannot be read and are ignored; "" if they can be read.
func Problem(annotations map[string]string, version string) string {
	for _, key := range []string{AnnotationSpec, AnnotationStatus} {
		if _, err := readMemory(annotations[key], Other(version)); err != nil {
			return fmt.Sprintf("metadata.annotations[%s] %s: it is ignored; remove the annotation", key, err)
		}
	}
	return ""
}
