// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/trellis-k8s/trellis/internal/cli"
)

// Draw says how much of the cluster a tree shows.
type Draw struct {
	// Level is the narrowest level to draw, with all domains; empty: hosts that hold pods of the graphs, and what is around them.
	Level string
	// Depth is how many levels are drawn; 0: all.
	Depth int
	// Free draws the domains with at least so much free, those with most first; 0: does not matter.
	Free int64
}

// overview is how many domains are drawn when nothing says what is wanted.
const overview = 40

// cut leaves in every tree what is to be drawn, and sums the rest up.
func (r *Report) cut(draw Draw) error {
	found := draw.Level == ""
	var names []string
	for i := range r.Trees {
		t := &r.Trees[i]
		at := slices.Index(t.Levels, draw.Level)
		found, names = found || at >= 0, append(names, t.Levels...)
		depth := len(t.Levels)
		switch {
		case at >= 0:
			depth = at + 1
		case draw.Depth == 0 && (len(r.Graphs) == 0 || draw.Free > 0):
			depth = t.overview()
		}
		if draw.Depth > 0 {
			depth = min(depth, draw.Depth)
		}
		t.Cluster.prune(draw.keeps(len(r.Graphs) == 0), depth)
		if draw.Free > 0 {
			t.Cluster.mostFreeFirst()
		}
	}
	if !found {
		slices.SortFunc(names, cli.Natural)
		return cli.NotFound(fmt.Sprintf("level %s", draw.Level), slices.Compact(names), "no trees")
	}
	return nil
}

// keeps is what a domain must have to be drawn. Nodes that lack a label are drawn only with pods on them.
func (draw Draw) keeps(noGraphs bool) func(*Domain) bool {
	switch {
	case draw.Free > 0:
		return func(d *Domain) bool { return d.Name != "" && d.Amount != nil && d.Amount.Free >= draw.Free }
	case draw.Level != "" || noGraphs:
		return func(d *Domain) bool { return d.Name != "" || d.holdsPods() }
	}
	return (*Domain).holdsPods
}

// overview is how many levels have few enough domains to be drawn whole; one at least.
func (t *Tree) overview() int {
	counts := make([]int, len(t.Levels)+1)
	t.Cluster.count(counts, 0)
	depth := 1
	for depth < len(t.Levels) && counts[depth+1] <= overview {
		depth++
	}
	return depth
}

func (d *Domain) count(counts []int, depth int) {
	counts[depth]++
	for _, child := range d.Children {
		if depth+1 < len(counts) {
			child.count(counts, depth+1)
		}
	}
}

// fold makes one line of a domain: the pods below stand beside it.
func (d *Domain) fold() {
	for _, child := range d.Children {
		child.fold()
		d.Pods = append(d.Pods, child.Pods...)
	}
	slices.SortFunc(d.Pods, comparePods)
	d.Children, d.Others = nil, nil
}

func (d *Domain) mostFreeFirst() {
	slices.SortStableFunc(d.Children, func(a, b *Domain) int { return -cmp.Compare(a.Amount.Free, b.Amount.Free) })
	for _, child := range d.Children {
		child.mostFreeFirst()
	}
}
