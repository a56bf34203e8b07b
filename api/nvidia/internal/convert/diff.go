// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"maps"
	"slices"
	"strings"
)

// op is one difference between two trees: at path, base has the value that was hashes, and the other has value.
type op struct {
	// path of keys; an element of a list of named objects has its name for a key.
	path []string
	// was is the hash of what base has there; empty if it has nothing.
	was string
	// value to set. Nothing is there with gone.
	value any
	gone  bool
	// order of a list of named objects; no value is set then.
	order []string
}

func (o *op) key() string {
	kind := ""
	if o.order != nil {
		kind = "order"
	}
	return strings.Join(o.path, "\x00") + "\x01" + kind
}

// diff lists what makes base into other. Applied in order to base, its operations give other exactly.
func diff(base, other any) []op {
	var ops []op
	differ(nil, base, other, &ops)
	return ops
}

func differ(path []string, base, other any, ops *[]op) {
	if equal(base, other) {
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
	*ops = append(*ops, op{path: path, was: hash(base), value: other})
}

func below(path []string, key string) []string { return append(slices.Clip(path), key) }

func differObjects(path []string, base, other object, ops *[]op) {
	for _, key := range sorted(base) {
		if value, ok := other[key]; ok {
			differ(below(path, key), base[key], value, ops)
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
	for i, name := range have {
		if j := indexOf(other, name); j >= 0 {
			result = append(result, name)
			differ(below(path, name), base[i], other[j], ops)
		} else {
			*ops = append(*ops, op{path: below(path, name), was: hash(base[i]), gone: true})
		}
	}
	for j, name := range want {
		if !slices.Contains(have, name) {
			result = append(result, name)
			*ops = append(*ops, op{path: below(path, name), value: other[j]})
		}
	}
	if !slices.Equal(result, want) {
		*ops = append(*ops, op{path: path, order: want})
	}
	return true
}

// apply returns the tree as the operation makes it, where that finds what it was recorded with, and whether it was applied. The tree itself stays
// as it is; the two share what is the same in both.
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
	last := len(path) == 1 && o.order == nil
	switch t := tree.(type) {
	case object:
		child, there := t[path[0]]
		switch {
		case last && !there && o.was == "" && !o.gone:
			return withValue(t, path[0], o.value), true
		case !there:
			return t, false
		case last && o.gone && o.was == hash(child):
			out := maps.Clone(t)
			delete(out, path[0])
			return out, true
		}
		changed, ok := applyAt(child, path[1:], o)
		if !ok {
			return t, false
		}
		return withValue(t, path[0], changed), true
	case []any:
		i := indexOf(t, path[0])
		switch {
		case last && i < 0 && o.was == "" && !o.gone:
			return append(slices.Clip(t), o.value), true
		case i < 0:
			return t, false
		case last && o.gone && o.was == hash(t[i]):
			return slices.Delete(slices.Clone(t), i, i+1), true
		}
		changed, ok := applyAt(t[i], path[1:], o)
		if !ok {
			return t, false
		}
		out := slices.Clone(t)
		out[i] = changed
		return out, true
	}
	return tree, false
}

// withValue is a copy of an object that has a value under a key.
func withValue(o object, key string, value any) object {
	out := maps.Clone(o)
	out[key] = value
	return out
}

// reorder puts the named elements into the order given and all others behind them.
func reorder(tree any, order []string) (any, bool) {
	list, _ := tree.([]any)
	if _, ok := names(list); !ok {
		return tree, false
	}
	place := func(element any) int {
		if i := slices.Index(order, textAt(element.(object), "name")); i >= 0 {
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

// maxTrials bounds the work that a memory can cause.
const maxTrials = 512

// restore applies the operations that nobody sees: distance lists where the tree, translated to the version of the live object, differs from it,
// and no operation may add to that list.
func restore(tree any, ops []op, distance func(tree any) map[string]bool) any {
	all, applied := applyAll(tree, ops)
	if !applied {
		return tree
	}
	before := distance(tree)
	if after := distance(all); subset(after, before) {
		return all
	}
	trials := 0
	for range 2 { // one may be seen until a later one is applied
		for _, group := range grouped(ops) {
			tree, before = attempt(tree, before, group, distance, &trials)
		}
	}
	return tree
}

// attempt applies a group of operations together, or else those that can be applied one by one.
func attempt(tree any, before map[string]bool, ops []op, distance func(any) map[string]bool, trials *int) (any, map[string]bool) {
	if *trials++; *trials > maxTrials {
		return tree, before
	}
	changed, applied := applyAll(tree, ops)
	if !applied {
		return tree, before
	}
	if after := distance(changed); subset(after, before) {
		return changed, after
	}
	if len(ops) == 1 {
		return tree, before
	}
	for i := range ops {
		tree, before = attempt(tree, before, ops[i:i+1], distance, trials)
	}
	return tree, before
}

// grouped keeps the operations on one component together.
func grouped(ops []op) [][]op {
	var out [][]op
	last := ""
	for i := range ops {
		group := strings.Join(ops[i].path[:min(2, len(ops[i].path))], "\x00")
		if i == 0 || group != last {
			out = append(out, nil)
		}
		out[len(out)-1] = append(out[len(out)-1], ops[i])
		last = group
	}
	return out
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
