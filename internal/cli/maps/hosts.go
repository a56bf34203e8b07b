// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package maps

import (
	"slices"

	"github.com/trellis-k8s/trellis/internal/cli/tree"
)

// Sizes of the dots for pods that do not use the resource, and the maximum length of a label. Dots are stacked in pairs.
const (
	maxDots  = 4
	dotStep  = 7
	dotSize  = 6
	maxLabel = 18
)

// widest is the maximum number of cells that are drawn at full width. A host with more cells has narrower cells within the same total
// width.
const widest = 32

// usual returns the number of cells that three quarters of the hosts do not exceed. Larger hosts have narrower cells, so that a few large
// hosts do not shrink all other hosts.
func usual(top *tree.Domain) int64 {
	var sizes []int64
	hosts(top, func(d *tree.Domain) {
		if n := sizeOf(d); n > 0 {
			sizes = append(sizes, n)
		}
	})
	if len(sizes) == 0 {
		return 0
	}
	slices.Sort(sizes)
	return min(widest, sizes[(len(sizes)*3+3)/4-1])
}

// sizeOf returns the number of cells of a host. If its pods use more than its capacity, its pods are drawn narrower. A host that is gone
// has only the cells of its pods.
func sizeOf(d *tree.Domain) int64 {
	switch {
	case d.Amount == nil:
		return 0
	case d.Total > 0:
		return d.Total
	}
	return d.Used
}

// overbooked returns the amount that pods use beyond a host's capacity.
func overbooked(d *tree.Domain) int64 {
	if d.Amount == nil {
		return 0
	}
	return max(0, d.Used-d.Total)
}

// barWidth returns the width of a host's bar.
func (g *grid) barWidth(d *tree.Domain) int { return int(min(sizeOf(d), g.cells)) * g.cell }

// dotsOf returns the pods of graphs on a host that do not use the resource.
func dotsOf(d *tree.Domain) []*tree.Pod {
	var list []*tree.Pod
	for _, p := range podsOn(d) {
		if p.Amount == 0 {
			list = append(list, p)
		}
	}
	return list
}

func podsOn(d *tree.Domain) []*tree.Pod {
	list := make([]*tree.Pod, 0, len(d.Pods)+len(d.Foreign))
	for _, pods := range [][]tree.Pod{d.Pods, d.Foreign} {
		for i := range pods {
			list = append(list, &pods[i])
		}
	}
	return list
}

// hosts calls f for every node below a domain.
func hosts(d *tree.Domain, f func(*tree.Domain)) {
	if d.Node {
		f(d)
	}
	for _, child := range d.Children {
		hosts(child, f)
	}
}
