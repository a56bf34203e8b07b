// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"fmt"
	"maps"
	"slices"
)

// The versions and kinds that are converted.
const (
	Alpha          = "v1alpha1"
	Beta           = "v1beta1"
	KindDeployment = "DynamoGraphDeployment"
	KindAdapter    = "DynamoGraphDeploymentScalingAdapter"

	group = "nvidia.com/"
)

// translator translates a spec or a status to the other version. sparse is the memory of this other version, and decides where values
// belong.
type translator func(part, sparse object) object

// part is a part of a deployment that is converted by itself, with its own memory.
type part struct {
	field, annotation string
	toBeta, toAlpha   translator
	// toFreshAlpha is toAlpha for objects that were never written in v1alpha1; nil if there is no difference.
	toFreshAlpha func(part object) object
}

var parts = []part{
	{"spec", AnnotationSpec, func(spec, _ object) object { return toBeta(spec) }, toAlpha, toFreshAlpha},
	{"status", AnnotationStatus,
		func(status, _ object) object { return statusToBeta(status) },
		func(status, _ object) object { return statusToAlpha(status) }, nil},
}

// directions returns the translators of a part to the wanted version and back. For a fresh object without a memory, the translator to
// v1alpha1 is toFreshAlpha.
func (p *part) directions(to string, fresh, annotated bool) (forward, back translator) {
	switch {
	case to == Beta:
		return p.toBeta, p.toAlpha
	case fresh && !annotated:
		return func(part, _ object) object { return p.toFreshAlpha(part) }, p.toBeta
	}
	return p.toAlpha, p.toBeta
}

// JSON converts an object to a version. It returns an object of that version, or of another kind, unchanged. It fails only for text that
// is not a JSON object, and for an unknown version.
func JSON(raw []byte, to string) ([]byte, error) {
	in, err := readObject(raw, to)
	if err != nil {
		return nil, err
	}
	return encode(convertObject(in, to, true)), nil
}

// Typed converts an object for typed clients, which may omit kind and apiVersion. The object is of the given kind, and not in version to.
// If remembers is set, it adds a memory; clients that only read need none.
func Typed(raw []byte, kind, to string, remembers bool) ([]byte, error) {
	in, err := readObject(raw, to)
	if err != nil {
		return nil, err
	}
	in["kind"], in["apiVersion"] = kind, group+Other(to)
	for _, entry := range entries(objectAt(in, "spec")) {
		dropNull(objectAt(entry, "extraPodSpec"), "containers")
		dropNull(objectAt(objectAt(entry, "podTemplate"), "spec"), "containers")
	}
	return encode(convertObject(in, to, remembers)), nil
}

// dropNull drops the null that a Go type writes for a missing list.
func dropNull(o object, key string) {
	if value, ok := o[key]; ok && value == nil {
		delete(o, key)
	}
}

func readObject(raw []byte, to string) (object, error) {
	if to != Alpha && to != Beta {
		return nil, fmt.Errorf("no conversion to %s%s", group, to)
	}
	tree, err := decode(raw)
	if err != nil {
		return nil, fmt.Errorf("reading the object: %w", err)
	}
	in, ok := tree.(object)
	if !ok {
		return nil, fmt.Errorf("want a JSON object, got %T", tree)
	}
	return in, nil
}

// convertObject returns the object in the version; it shares parts with in.
func convertObject(in object, to string, remembers bool) object {
	if textAt(in, "apiVersion") == group+to {
		return in
	}
	out := maps.Clone(in)
	out["apiVersion"] = group + to
	meta, _ := clone(in["metadata"]).(object)
	if meta == nil {
		meta = object{}
	}
	out["metadata"] = meta
	switch textAt(in, "kind") {
	case KindDeployment:
		for i := range parts {
			parts[i].convert(in, out, meta, to, remembers)
		}
		fit(meta, Other(to))
	case KindAdapter:
		convertAdapter(out, to)
	}
	return out
}

// Other returns the other version.
func Other(version string) string {
	if version == Alpha {
		return Beta
	}
	return Alpha
}

// convert converts one part of in into out, and writes its memory into meta.
func (p *part) convert(in, out, meta object, to string, remembers bool) {
	annotation, annotated := objectAt(meta, "annotations")[p.annotation].(string)
	setAnnotation(meta, p.annotation, "")
	remembered, _ := readMemory(annotation, to)
	live, ok := in[p.field].(object)
	if !ok {
		p.convertNothing(meta, to, annotation, remembered)
		return
	}
	fresh := p.fresh(meta)
	forward, back := p.directions(to, fresh, annotated)
	result, exact := recall(live, remembered, forward, back)
	out[p.field] = result
	foreign, unwritten := annotated && !remembered.own(), fresh && to == Beta
	switch {
	case !remembers:
		return
	case exact && remembered.raw != nil:
		setAnnotation(meta, p.annotation, *remembered.raw)
		return
	case unwritten && !foreign && equal(p.toFreshAlpha(result), live):
		return // the part converts back without a memory, as if it was never written in v1alpha1
	}
	memo := remember(live, result, back)
	if unwritten && memo.empty() {
		memo.placed, memo.hash = true, fingerprint(result)
	}
	if p.partial(fresh, alphaOf(to, live, result)) {
		memo.unowned(to, remembered, annotated, result)
	}
	if foreign && remember(result, live, forward).text(to) != annotation {
		memo.raw, memo.hash = &annotation, fingerprint(result)
	}
	setAnnotation(meta, p.annotation, memo.text(Other(to)))
}

// fresh reports whether the part has another form for objects that were never written in v1alpha1, and this object is one of them.
func (p *part) fresh(meta object) bool { return p.toFreshAlpha != nil && neverInAlpha(meta) }

// convertNothing converts the annotation of a part that does not exist.
func (p *part) convertNothing(meta object, to, annotation string, remembered *memory) {
	memo := &memory{}
	if p.toFreshAlpha != nil && !p.fresh(meta) {
		memo.unowned(to, remembered, annotation != "", object{})
	}
	if annotation != "" && !remembered.mark() {
		setAnnotation(meta, p.annotation, annotation) // there is nothing to apply it to
	} else if !memo.empty() {
		setAnnotation(meta, p.annotation, memo.text(Other(to)))
	}
}

// alphaOf returns the part that is v1alpha1.
func alphaOf(to string, live, result object) object {
	if to == Beta {
		return live
	}
	return result
}

func (p *part) partial(fresh bool, spec object) bool {
	return p.toFreshAlpha != nil && !fresh && partial(spec)
}

// partial reports whether a v1alpha1 spec cannot be one that a user wrote, because a service has no image.
//
// The API server makes partial objects for a manager that has applied v1alpha1 and now applies v1beta1: it removes the manager's former
// fields from the object in v1alpha1, and adds the fields applied now from the whole object in v1beta1. It adds annotations only if
// both objects have them, since no manager owns the memory's annotation. Without a memory, fields of the result would be in other
// places in v1alpha1 than before, and would be removed. So a partial object in v1beta1 always has a memory, unless it came from there
// without one: see memory.unowned.
func partial(spec object) bool {
	services := objectAt(spec, "services")
	for _, value := range services {
		service, _ := value.(object)
		if textAt(objectAt(objectAt(service, "extraPodSpec"), "mainContainer"), "image") == "" {
			return true
		}
	}
	return len(services) == 0
}

// neverInAlpha reports whether managedFields has entries but none in v1alpha1, other than those for subresources. It returns false without
// entries, because a v1alpha1 manager may then own fields, and these fields must not move.
func neverInAlpha(meta object) bool {
	writers := listAt(meta, "managedFields")
	return len(writers) > 0 && !slices.ContainsFunc(writers, func(entry any) bool {
		writer, _ := entry.(object)
		return textAt(writer, "apiVersion") == group+Alpha && textAt(writer, "subresource") == ""
	})
}

// setAnnotation sets an annotation, or removes it if the text is empty.
func setAnnotation(meta object, key, text string) {
	if text != "" {
		ensure(meta, "annotations")[key] = text
		return
	}
	annotations, ok := meta["annotations"].(object)
	if !ok {
		return
	}
	if _, there := annotations[key]; !there {
		return
	}
	delete(annotations, key)
	if len(annotations) == 0 {
		delete(meta, "annotations")
	}
}
