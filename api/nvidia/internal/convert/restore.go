// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import "strings"

// maxTrials and maxWork, in values looked at, bound the work that a memory can cause.
const (
	maxTrials = 512
	maxWork   = 4 << 20
)

// trialsFor a tree are fewer if it is large: each goes through all of it.
func trialsFor(tree any) int { return min(maxTrials, maxWork/(1+values(tree))) }

// values in a tree, itself included.
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

// restore applies the operations that no one sees: distance lists where the tree, translated to the version of the live object, differs
// from it, and no operation may add to that list.
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
	for range 2 { // one may be seen until a later one is applied
		for _, group := range grouped(ops) {
			tree, before = attempt(tree, before, group, distance, &trials)
		}
	}
	return tree
}

// attempt applies a group of operations together, or else those that can be applied one by one.
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
