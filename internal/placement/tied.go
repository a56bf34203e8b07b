// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"slices"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// is reports whether asks returns true for pod i under any rule; every reports whether asks returns true for pod i under all rules.
func (o *orders) is(i int, asks func(topology.Order, int) bool) bool {
	return slices.ContainsFunc(o.by, func(by topology.Order) bool { return asks(by, i) })
}

func (o *orders) every(i int, asks func(topology.Order, int) bool) bool {
	return !slices.ContainsFunc(o.by, func(by topology.Order) bool { return !asks(by, i) })
}

// alike is a key that is equal for interchangeable pods.
type alike struct {
	demand *demand
	by     string
}

func (o *orders) alike(i int) (alike, bool) {
	out := alike{demand: o.waiting[i].demand}
	for _, by := range o.by {
		text := by.Alike(i)
		if text == "" {
			return alike{}, false
		}
		out.by += text + "\x01"
	}
	return out, true
}

// tied partitions pods into groups. No rule ties pods of different groups to each other.
func (o *orders) tied(some []int) (groups [][]int) {
	of := map[int]int{} // parent of each pod in the union-find of tied pods
	var find func(i int) int
	find = func(i int) int {
		if of[i] != i {
			of[i] = find(of[i])
		}
		return of[i]
	}
	first := map[tie]int{}
	for _, i := range some {
		of[i] = i
		for k, by := range o.by {
			for _, text := range by.Ties(i) {
				if other, known := first[tie{k, text}]; known {
					of[find(i)] = find(other)
				} else {
					first[tie{k, text}] = i
				}
			}
		}
	}
	at := map[int]int{}
	for _, i := range some {
		root := find(i)
		if _, known := at[root]; !known {
			at[root], groups = len(groups), append(groups, nil)
		}
		groups[at[root]] = append(groups[at[root]], i)
	}
	return groups
}

// tie identifies a tie under one of the rules. Pods with the same tie affect each other.
type tie struct {
	by   int
	text string
}

// tiedBy returns the only rule that ties the pods; nil when several rules do.
func (o *orders) tiedBy(some []int) (one topology.Order) {
	for _, by := range o.by {
		if !slices.ContainsFunc(some, func(i int) bool { return len(by.Ties(i)) > 0 }) {
			continue
		}
		if one != nil {
			return nil
		}
		one = by
	}
	return one
}
