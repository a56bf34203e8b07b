// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import "strings"

// maxTrials and maxWork bound the work that a memory can cause, in trials and visited values.
const (
	maxTrials = 512
	maxWork   = 4 << 20
)

// trialsFor returns the number of trials for a tree: fewer for a large tree, because each trial visits all values of the tree.
func trialsFor(tree any) int { return min(maxTrials, maxWork/(1+values(tree))) }

// values counts the values in a tree, including the tree itself.
func values(tree any) int {
	n := 1
	switch v := tree.(type) {
	case object:
		for _, child := range v {
			n += values(child)
		}
	case []any:
		for _, child := range v {
			n += values(child)
		}
	}
	return n
}

// restore applies operations that do not contradict the live object. distance returns the places where a tree, translated to the live
// object's version, differs from the live object. restore skips operations that add such places.
func restore(tree any, ops []op, distance func(tree any) map[string]bool) any {
	all, applied := applyAll(tree, ops)
	if !applied {
		return tree
	}
	before := distance(tree)
	if after := distance(all); subset(after, before) {
		return all
	}
	trials := trialsFor(tree)
	for range 2 { // an operation may be visible until a later one is applied
		for _, group := range grouped(ops) {
			tree, before = attempt(tree, before, group, distance, &trials)
		}
	}
	return tree
}

// attempt applies a group of operations together. If the group contradicts the live object, attempt tries its operations one by one.
func attempt(tree any, before map[string]bool, ops []op, distance func(any) map[string]bool, trials *int) (any, map[string]bool) {
	if *trials--; *trials < 0 {
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

// grouped groups consecutive operations on the same component.
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
