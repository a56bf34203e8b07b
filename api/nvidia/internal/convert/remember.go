// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"fmt"
	"slices"
	"strings"
)

// entries are the services or components of a spec by name.
func entries(spec object) map[string]object {
	out := map[string]object{}
	for name, value := range objectAt(spec, "services") {
		if o, ok := value.(object); ok {
			out[name] = o
		}
	}
	list := listAt(spec, "components")
	if _, ok := names(list); ok {
		for _, element := range list {
			o := element.(object)
			out[textAt(o, "name")] = o
		}
	}
	return out
}

// sparse is what a memory keeps in the form of the original: of every service that base, the plain translation, does not give exactly, the
// fields that have another place (placed), and the pod metadata that overrides them. These say where values belong.
func sparse(original, base object) object {
	services := object{}
	plain := entries(base)
	for name, value := range objectAt(original, "services") {
		service, _ := value.(object)
		if plain[name] == nil || equal(plain[name], service) {
			continue
		}
		kept := object{}
		for _, field := range placed {
			_, probe := service[field].(object)
			if probe = probe && strings.HasSuffix(field, "Probe"); probe || !blank(service[field]) {
				kept[field] = service[field]
			}
		}
		if secretTwice(service) {
			delete(kept, "envFromSecret")
		}
		if overriding := overridingMetadata(service); len(overriding) > 0 {
			kept["extraPodMetadata"] = overriding
		}
		if len(kept) > 0 {
			services[name] = kept
		}
	}
	if len(services) == 0 {
		return object{}
	}
	return object{"services": services}
}

// secretTwice reports whether the main container of a service has the service's secret among its own sources, so that after an edit its
// name does not tell which of the two it is.
func secretTwice(service object) bool {
	secret := textAt(service, "envFromSecret")
	own := listAt(objectAt(objectAt(service, "extraPodSpec"), "mainContainer"), "envFrom")
	return secret != "" && slices.ContainsFunc(own, func(source any) bool { return secretOf(source) == secret })
}

func blank(value any) bool {
	switch v := value.(type) {
	case nil:
		return true
	case object:
		return len(v) == 0
	case []any:
		return len(v) == 0
	}
	return value == ""
}

// overridingMetadata is the part of extraPodMetadata that hides annotations and labels of the service.
func overridingMetadata(service object) object {
	out := object{}
	for _, field := range []string{"annotations", "labels"} {
		for key, value := range objectAt(objectAt(service, "extraPodMetadata"), field) {
			if _, hidden := objectAt(service, field)[key]; hidden {
				ensure(out, field)[key] = value
			}
		}
	}
	return out
}

// addition keeps whole fields of the spec or of a service or component in sparse, in the form that the Dynamo operator reads and writes.
// It returns false for any other operation.
func addition(tree object, o *op) bool {
	if o.was != "" || o.gone || o.order != nil {
		return false
	}
	switch {
	case len(o.path) == 1 && o.path[0] != "services" && o.path[0] != "components" && o.path[0] != memoryKey:
		tree[o.path[0]] = o.value
		return true
	case len(o.path) == 3 && o.path[0] == "services" && !placedField(o.path[2]):
		ensure(ensure(tree, "services"), o.path[1])[o.path[2]] = o.value
		return true
	case len(o.path) == 3 && o.path[0] == "components":
		list := listAt(tree, "components")
		i := indexOf(list, o.path[1])
		if i < 0 {
			i, list = len(list), append(list, object{"name": o.path[1]})
			tree["components"] = list
		}
		list[i].(object)[o.path[2]] = o.value
		return true
	}
	return false
}

func placedField(field string) bool {
	return field == "extraPodMetadata" || slices.Contains(placed, field)
}

// additions are the whole fields in sparse as operations. What says only where values belong is none.
func additions(tree object) []op {
	var out []op
	for _, key := range sorted(tree) {
		if key != "services" && key != "components" {
			out = append(out, op{path: []string{key}, value: tree[key]})
		}
	}
	services := objectAt(tree, "services")
	for _, name := range sorted(services) {
		service := objectAt(services, name)
		for _, field := range sorted(service) {
			if !placedField(field) {
				out = append(out, op{path: []string{"services", name, field}, value: service[field]})
			}
		}
	}
	for _, element := range listAt(tree, "components") {
		c, _ := element.(object)
		for _, field := range sorted(c) {
			if name := textAt(c, "name"); field != "name" && name != "" {
				out = append(out, op{path: []string{"components", name, field}, value: c[field]})
			}
		}
	}
	return out
}

// whole is a spec as the guide of its own way back: every field that has another place is remembered.
func whole(spec object) object {
	if _, ok := spec["services"]; !ok {
		return nil
	}
	return sparse(spec, object{"services": emptied(objectAt(spec, "services"))})
}

func emptied(services object) object {
	out := object{}
	for name := range services {
		out[name] = object{}
	}
	return out
}

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
