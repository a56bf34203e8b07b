// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package field

import (
	"slices"
	"strconv"
	"strings"
)

// Path is a path of fields in v1beta1. Its methods return a longer path and leave it as it is.
type Path struct {
	parent *Path
	element
	// alpha is the path in v1alpha1, where the table does not have it.
	alpha *Path
}

// element is one step of a path: a field, a place in a list, a key of a map or of a list of named objects, or a component.
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

// NewPath begins a path.
func NewPath(name string, more ...string) *Path { return (*Path)(nil).Child(name, more...) }

// Components is the path of the components of a deployment.
var Components = NewPath("spec", "components")

// Component is the path of a component. v1beta1 names it by its place in the list, or by its name where the place is negative; v1alpha1 by
// its name.
func Component(place int, name string) *Path {
	return Components.with(element{kind: ofComponent, name: name, index: place})
}

func (p *Path) with(e element) *Path { return &Path{parent: p, element: e} }

// Child is a field of what the path names, and fields inside of it.
func (p *Path) Child(name string, more ...string) *Path {
	p = p.with(element{kind: ofField, name: name})
	for _, name := range more {
		p = p.with(element{kind: ofField, name: name})
	}
	return p
}

// Index is an item of the list that the path names.
func (p *Path) Index(i int) *Path { return p.with(element{kind: ofIndex, index: i}) }

// Key is an entry of the map, or of the list of named objects, that the path names.
func (p *Path) Key(name string) *Path { return p.with(element{kind: ofKey, name: name}) }

// InAlpha is the same path with another form in v1alpha1 than the table has: alpha, which has the fields of the component in the words of
// v1alpha1.
func (p *Path) InAlpha(alpha *Path) *Path {
	if p == nil {
		return alpha
	}
	q := *p
	q.alpha = alpha
	return &q
}

// String is the path in v1beta1.
func (p *Path) String() string { return render(p.elements(), false) }

// In is the path in the words of a version.
func (p *Path) In(version string) string {
	if version != v1alpha1 {
		return p.String()
	}
	return render(p.alphaElements(), true)
}

// Kind is the path without what tells one such field from another, and what that is: spec.components[*].replicas at Decode. Which
// annotation of a component it is remains.
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

// alphaElements are those of the path in v1alpha1.
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

// render writes the elements out. A component is named by its place in v1beta1.
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
