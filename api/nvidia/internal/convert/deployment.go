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

// translator translates a spec or a status to the other version. sparse, from the memory, decides in which fields of this other version
// values belong.
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
// If remembers is set, Typed adds a memory; clients that only read the object need no memory.
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

// Other returns v1beta1 for v1alpha1, and v1alpha1 for v1beta1.
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

// fresh reports whether the part has another form for objects that were never written in v1alpha1, and this object was never written in
// v1alpha1.
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

// partial reports whether a v1alpha1 spec is only a part of the spec that a user wrote: it has no services, or a service without an image.
//
// The API server makes partial objects during server-side apply, for a field manager that has applied v1alpha1 and now applies v1beta1. It
// removes the manager's former fields from the object in v1alpha1, and adds the fields that the manager applies now from the whole object
// in v1beta1. It adds an annotation only if both objects have it, because no manager owns the memory's annotation. Without the memory, the
// result would have values in other v1alpha1 fields than before, and the API server would remove these values. So a partial v1beta1 object
// always has a memory, unless it was a v1beta1 object without a memory before its conversion to v1alpha1; see memory.unowned.
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

// neverInAlpha reports whether managedFields has entries, but no v1alpha1 entries except for subresources. It returns false without
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
