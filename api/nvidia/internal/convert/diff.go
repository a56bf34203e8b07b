// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"maps"
	"slices"
	"strings"
)

// op is one difference between two trees, base and other: at path, base has the value whose hash is was, and other has another value.
type op struct {
	// path lists the keys from the root to the value; the key of an element in a list of named objects is its name.
	path []string
	// was is the hash of the value in base; "" if base has no value.
	was string
	// value is set at path; if gone is true, the value at path is removed instead.
	value any
	gone  bool
	// order is the order of a list of named objects; if order is set, value is unused.
	order []string
}

func (o *op) key() string {
	kind := ""
	if o.order != nil {
		kind = "order"
	}
	return strings.Join(o.path, "\x00") + "\x01" + kind
}

// diff lists the operations that turn base into other, when they are applied in order.
func diff(base, other any) []op {
	var ops []op
	differ(nil, base, other, &ops)
	return ops
}

// shallow is the depth up to which differ skips equal values at once. Deeper checks would compare the same values again at every level.
const shallow = 8

// differ appends the operations for two values. Its callers share the array of path, so operations copy it.
func differ(path []string, base, other any, ops *[]op) {
	if len(path) < shallow && equal(base, other) {
		return
	}
	switch b := base.(type) {
	case object:
		if o, ok := other.(object); ok {
			differObjects(path, b, o, ops)
			return
		}
	case []any:
		if o, ok := other.([]any); ok && differLists(path, b, o, ops) {
			return
		}
	}
	if !equal(base, other) {
		*ops = append(*ops, op{path: slices.Clone(path), was: hash(base), value: other})
	}
}

// below copies path and appends key.
func below(path []string, key string) []string { return append(slices.Clip(path), key) }

func differObjects(path []string, base, other object, ops *[]op) {
	for _, key := range sorted(base) {
		if value, ok := other[key]; ok {
			differ(append(path, key), base[key], value, ops)
		} else {
			*ops = append(*ops, op{path: below(path, key), was: hash(base[key]), gone: true})
		}
	}
	for _, key := range sorted(other) {
		if _, ok := base[key]; !ok {
			*ops = append(*ops, op{path: below(path, key), value: other[key]})
		}
	}
}

// differLists compares lists of named objects by name. It returns false for other lists.
func differLists(path []string, base, other []any, ops *[]op) bool {
	have, ok := names(base)
	want, named := names(other)
	if !ok || !named || len(have) == 0 || len(want) == 0 {
		return false
	}
	var result []string
	places, former := placesOf(want), placesOf(have)
	for i, name := range have {
		if j, there := places[name]; there {
			result = append(result, name)
			differ(append(path, name), base[i], other[j], ops)
		} else {
			*ops = append(*ops, op{path: below(path, name), was: hash(base[i]), gone: true})
		}
	}
	for j, name := range want {
		if _, there := former[name]; !there {
			result = append(result, name)
			*ops = append(*ops, op{path: below(path, name), value: other[j]})
		}
	}
	if !slices.Equal(result, want) {
		*ops = append(*ops, op{path: slices.Clone(path), order: want})
	}
	return true
}

func placesOf(names []string) map[string]int {
	out := make(map[string]int, len(names))
	for i, name := range names {
		out[name] = i
	}
	return out
}

// apply returns a copy of the tree with an operation applied, and true; the copy shares the unchanged parts. If the old value that the
// operation recorded does not match the tree, apply returns the tree itself and false.
func apply(tree any, o *op) (any, bool) { return applyAt(tree, o.path, o) }

func applyAt(tree any, path []string, o *op) (any, bool) {
	if len(path) == 0 {
		if o.order != nil {
			return reorder(tree, o.order)
		}
		if o.gone || o.was != hash(tree) {
			return tree, false
		}
		return o.value, true
	}
	switch t := tree.(type) {
	case object:
		return applyToObject(t, path, o)
	case []any:
		return applyToList(t, path, o)
	}
	return tree, false
}

func applyToObject(t object, path []string, o *op) (any, bool) {
	child, there := t[path[0]]
	switch o.stepAt(path, child, there) {
	case stepAdd:
		return withValue(t, path[0], o.value), true
	case stepRemove:
		out := maps.Clone(t)
		delete(out, path[0])
		return out, true
	case stepInto:
		if changed, ok := applyAt(child, path[1:], o); ok {
			return withValue(t, path[0], changed), true
		}
	}
	return t, false
}

func applyToList(t []any, path []string, o *op) (any, bool) {
	i := indexOf(t, path[0])
	var child any
	if i >= 0 {
		child = t[i]
	}
	switch o.stepAt(path, child, i >= 0) {
	case stepAdd:
		return append(slices.Clip(t), o.value), true
	case stepRemove:
		return slices.Delete(slices.Clone(t), i, i+1), true
	case stepInto:
		if changed, ok := applyAt(child, path[1:], o); ok {
			out := slices.Clone(t)
			out[i] = changed
			return out, true
		}
	}
	return t, false
}

// step is what an operation does at one key of its path: nothing, add or remove the child, or descend into the child.
type step int

const (
	stepNone step = iota
	stepAdd
	stepRemove
	stepInto
)

func (o *op) stepAt(path []string, child any, there bool) step {
	last := len(path) == 1 && o.order == nil
	switch {
	case last && !there && o.was == "" && !o.gone:
		return stepAdd
	case !there:
		return stepNone
	case last && o.gone && o.was == hash(child):
		return stepRemove
	}
	return stepInto
}

// withValue returns a copy of an object with a value under a key.
func withValue(o object, key string, value any) object {
	out := maps.Clone(o)
	out[key] = value
	return out
}

// reorder sorts the named elements in the given order, followed by all other elements.
func reorder(tree any, order []string) (any, bool) {
	list, _ := tree.([]any)
	if _, ok := names(list); !ok {
		return tree, false
	}
	places := placesOf(order)
	place := func(element any) int {
		if i, there := places[nameOf(element)]; there {
			return i
		}
		return len(order)
	}
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b any) int { return place(a) - place(b) })
	return list, true
}

func applyAll(tree any, ops []op) (any, bool) {
	applied := false
	for i := range ops {
		var ok bool
		tree, ok = apply(tree, &ops[i])
		applied = applied || ok
	}
	return tree, applied
}

func subset(a, b map[string]bool) bool {
	for key := range a {
		if !b[key] {
			return false
		}
	}
	return true
}

func keysOf(ops []op) map[string]bool {
	out := make(map[string]bool, len(ops))
	for i := range ops {
		out[ops[i].key()] = true
	}
	return out
}
