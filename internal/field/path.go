// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package field

import (
	"slices"
	"strconv"
	"strings"
)

// Path is a path of fields in v1beta1. Its methods return longer paths and never change the receiver.
type Path struct {
	parent *Path
	element
	// alpha is the v1alpha1 form of the path if componentFields and specFields do not contain this form.
	alpha *Path
}

// element is one step of a path: a field, an index in a list, a key in a map or in a list of named objects, or a component.
type element struct {
	kind  kind
	name  string
	index int
}

type kind int

const (
	ofField kind = iota
	ofIndex
	ofKey
	ofComponent
)

// NewPath returns a path that begins with the given fields.
func NewPath(name string, more ...string) *Path { return (*Path)(nil).Child(name, more...) }

// Components is the path of a deployment's components.
var Components = NewPath("spec", "components")

// Component returns the path of a component. v1beta1 identifies a component by its index in the list, or by its name if the index is
// negative. v1alpha1 identifies it by its name.
func Component(place int, name string) *Path {
	return Components.with(element{kind: ofComponent, name: name, index: place})
}

func (p *Path) with(e element) *Path { return &Path{parent: p, element: e} }

// Child returns the path of a field inside the given path, or of a field that is nested more deeply.
func (p *Path) Child(name string, more ...string) *Path {
	p = p.with(element{kind: ofField, name: name})
	for _, name := range more {
		p = p.with(element{kind: ofField, name: name})
	}
	return p
}

// Index returns the path of an item in a list.
func (p *Path) Index(i int) *Path { return p.with(element{kind: ofIndex, index: i}) }

// Key returns the path of an entry in a map or in a list of named objects.
func (p *Path) Key(name string) *Path { return p.with(element{kind: ofKey, name: name}) }

// InAlpha returns the path with a v1alpha1 form that componentFields and specFields do not contain. The given form already has v1alpha1
// fields inside a component.
func (p *Path) InAlpha(alpha *Path) *Path {
	if p == nil {
		return alpha
	}
	q := *p
	q.alpha = alpha
	return &q
}

// String returns the path in v1beta1.
func (p *Path) String() string { return render(p.elements(), false) }

// In returns the path in the terms of a version.
func (p *Path) In(version string) string {
	if version != v1alpha1 {
		return p.String()
	}
	return render(p.alphaElements(), true)
}

// Kind returns the path with wildcards instead of indices and keys, and the first index or key that it replaced:
// spec.components[*].replicas and Decode. It does not replace the keys of a component's annotations.
func (p *Path) Kind() (kind *Path, where string) {
	elements, first := p.elements(), true
	for i := range elements {
		e := &elements[i]
		switch {
		case e.kind == ofField:
			continue
		case first:
			where = nameOf(*e)
		case elements[i-1].name == "annotations":
			continue
		}
		first = false
		*e = element{kind: e.kind, name: "*", index: -1}
		if e.kind == ofIndex {
			e.kind = ofKey
		}
	}
	return fromElements(elements), where
}

func nameOf(e element) string {
	if e.kind == ofIndex {
		return strconv.Itoa(e.index)
	}
	return e.name
}

func fromElements(elements []element) *Path {
	var p *Path
	for _, e := range elements {
		p = p.with(e)
	}
	return p
}

func (p *Path) elements() []element {
	var out []element
	for ; p != nil; p = p.parent {
		out = append(out, p.element)
	}
	slices.Reverse(out)
	return out
}

// alphaElements returns the elements of the v1alpha1 path.
func (p *Path) alphaElements() []element {
	var rest []element
	for q := p; q != nil; q = q.parent {
		if q.alpha != nil {
			slices.Reverse(rest)
			return append(inAlpha(q.alpha.elements(), true), rest...)
		}
		rest = append(rest, q.element)
	}
	return inAlpha(p.elements(), false)
}

// render formats the elements of a path. In v1beta1, a component has an index.
func render(elements []element, alpha bool) string {
	var out strings.Builder
	for i, e := range elements {
		switch {
		case e.kind == ofField && i > 0:
			out.WriteString("." + e.name)
		case e.kind == ofField:
			out.WriteString(e.name)
		case e.kind == ofIndex, e.kind == ofComponent && !alpha && e.index >= 0:
			out.WriteString("[" + strconv.Itoa(e.index) + "]")
		default:
			out.WriteString("[" + e.name + "]")
		}
	}
	return out.String()
}
