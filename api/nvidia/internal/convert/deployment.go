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

// translator turns one part of an object, spec or status, into the other version, guided by what is remembered of that version.
type translator func(part, sparse object) object

// part of a deployment that is converted by itself, with a memory of its own.
type part struct {
	field, annotation string
	toBeta, toAlpha   translator
	// toFreshAlpha is toAlpha for a part that has never been written in v1alpha1; nil if there is no difference.
	toFreshAlpha func(part object) object
}

var parts = []part{
	{"spec", AnnotationSpec, func(spec, _ object) object { return toBeta(spec) }, toAlpha, toFreshAlpha},
	{"status", AnnotationStatus,
		func(status, _ object) object { return statusToBeta(status) },
		func(status, _ object) object { return statusToAlpha(status) }, nil},
}

// directions of a part: into the wanted version and back. A fresh object that has no memory is translated into the form for objects
// that were never written in v1alpha1.
func (p *part) directions(to string, fresh, annotated bool) (forward, back translator) {
	switch {
	case to == Beta:
		return p.toBeta, p.toAlpha
	case fresh && !annotated:
		return func(part, _ object) object { return p.toFreshAlpha(part) }, p.toBeta
	}
	return p.toAlpha, p.toBeta
}

// JSON converts an object to a version. An object of that version, or of a kind that is not converted, is returned as it is. It fails only
// for what is no JSON object or names a version that is not known.
func JSON(raw []byte, to string) ([]byte, error) {
	in, err := readObject(raw, to)
	if err != nil {
		return nil, err
	}
	return encode(convertObject(in, to, true)), nil
}

// Typed converts an object of the kind and the version that is not to, which it may leave out, as typed clients do. It remembers what the
// version it comes from alone can say if remembers is set: who only reads the object needs no way back.
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

// dropNull drops what a Go type writes of a list that is not there.
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

// convertObject returns an object of the version, which shares parts with in.
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

// Other of the two versions.
func Other(version string) string {
	if version == Alpha {
		return Beta
	}
	return Alpha
}

// convert one part of in into out, and write into meta what out cannot say of it.
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
		return // it reads the same without a memory, as a part that was never written in v1alpha1
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

// fresh reports whether the part has a form of its own for objects that were never written in v1alpha1, and this is one.
func (p *part) fresh(meta object) bool { return p.toFreshAlpha != nil && neverInAlpha(meta) }

// convertNothing is the conversion of an object without the part.
func (p *part) convertNothing(meta object, to, annotation string, remembered *memory) {
	memo := &memory{}
	if p.toFreshAlpha != nil && !p.fresh(meta) {
		memo.unowned(to, remembered, annotation != "", object{})
	}
	if annotation != "" && !remembered.mark() {
		setAnnotation(meta, p.annotation, annotation) // nothing to use it on
	} else if !memo.empty() {
		setAnnotation(meta, p.annotation, memo.text(Other(to)))
	}
}

// alphaOf two translations is the one in v1alpha1.
func alphaOf(to string, live, result object) object {
	if to == Beta {
		return live
	}
	return result
}

func (p *part) partial(fresh bool, spec object) bool {
	return p.toFreshAlpha != nil && !fresh && partial(spec)
}

// partial reports whether a spec in v1alpha1 is none that anybody writes, since a service has no image.
//
// The API server makes such objects: of a manager that has applied v1alpha1 and applies v1beta1 now, it takes the fields of before out of
// the object in v1alpha1, and adds in v1beta1 what is applied now, from the whole object. Annotations are added only where both have them,
// since no manager owns that of the memory. Without a memory the result would have its fields in other places in v1alpha1 than before, and
// these would be removed. So a partial object always has a memory in v1beta1, unless it comes from there and had none: see memory.unowned.
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

// neverInAlpha reports whether managedFields has entries and none of them, except for subresources, was written in v1alpha1. Without
// entries the managers are unknown, so no field is moved that a manager of v1alpha1 may own.
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
