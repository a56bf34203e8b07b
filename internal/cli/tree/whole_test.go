// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestWhole: all hosts are there, in a tree for every topology, with the pods of others and of graphs that another tree shows.
func TestWhole(t *testing.T) {
	w := newWorld(t, 1, 2, 2)
	w.addGraph(small, "small-decode-0 a-1-0\nsmall-decode-1 a-1-0\nsmall-decode-2 -")
	w.addPod("a-0-1", "3")
	w.Topologies = append(w.Topologies, flat(nil))
	var got []string
	for _, tree := range Whole(w.scene()).Trees {
		var walk func(*Domain)
		walk = func(d *Domain) {
			if d.Node {
				got = append(got, fmt.Sprintf("%s %s: %d own, %v of others, %d free", tree.Topology, d.Name, len(d.Pods), amounts(d.Foreign), d.Free))
			}
			if len(d.Others) > 0 {
				t.Errorf("%s sums up %d others", d.Name, len(d.Others))
			}
			for _, child := range d.Children {
				walk(child)
			}
		}
		walk(tree.Cluster)
	}
	want := []string{
		"hall a-0-0: 0 own, [] of others, 8 free", "hall a-0-1: 0 own, [3] of others, 5 free",
		"hall a-1-0: 2 own, [] of others, 4 free", "hall a-1-1: 0 own, [] of others, 8 free",
		"flat a-0-0: 0 own, [] of others, 8 free", "flat a-0-1: 0 own, [3] of others, 5 free",
		"flat a-1-0: 0 own, [2 2] of others, 4 free", "flat a-1-1: 0 own, [] of others, 8 free",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if before := Build(w.scene()).Trees; len(before) != 1 || slices.ContainsFunc(before[0].Cluster.Children, func(d *Domain) bool { return d.Foreign != nil }) {
		t.Errorf("tree itself shows more than before: %d trees", len(before))
	}
}

func amounts(pods []Pod) []int64 {
	list := []int64{}
	for _, p := range pods {
		list = append(list, p.Amount)
	}
	return list
}
