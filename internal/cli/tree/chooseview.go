// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/trellis-k8s/trellis/internal/cli"
	"github.com/trellis-k8s/trellis/internal/limit"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// viewsOf returns the hierarchies in which graphs are placed, in the order of the graphs.
func viewsOf(graphs []*graphPods) []view {
	var views []view
	for _, g := range graphs {
		if !slices.ContainsFunc(views, g.view.equal) {
			views = append(views, g.view)
		}
	}
	return views
}

// choose returns the views to draw, and sets the view in which each graph is drawn. The first view is the view with the given level, or
// else the view with the most pods, or else the default topology. A further view is drawn only for graphs whose pods are not all on the
// hosts of one earlier view. Without graphs, a further view is drawn if it has hosts that the earlier views lack.
func (s *Scene) choose(views []view, graphs []*graphPods, level string) []view {
	pods := func(v view) (n int) {
		for _, g := range graphs {
			if g.view.equal(v) {
				n += len(g.pods)
			}
		}
		return n
	}
	rank := func(v view) int {
		switch {
		case level != "" && slices.Contains(v.names(), level):
			return 2
		case v.equal(s.fallback()):
			return 1
		}
		return 0
	}
	ordered := slices.SortedStableFunc(slices.Values(views), func(a, b view) int {
		return cmp.Or(cmp.Compare(rank(b)/2, rank(a)/2), cmp.Compare(pods(b), pods(a)), cmp.Compare(rank(b), rank(a)))
	})
	var chosen []view
	left, hosts := graphs, s.hostsOf(view{})
	for _, v := range ordered {
		covered := s.hostsOf(v)
		needed := len(chosen) == 0 || slices.ContainsFunc(left, func(g *graphPods) bool { return g.view.equal(v) })
		if len(graphs) == 0 && len(chosen) > 0 {
			needed = covered.Intersection(hosts).Len() > 0
		}
		if !needed {
			continue
		}
		chosen = append(chosen, v)
		hosts = hosts.Difference(covered)
		left = slices.DeleteFunc(slices.Clone(left), func(g *graphPods) bool {
			drawn := g.view.equal(v) || g.isOn(covered)
			if drawn {
				g.in = v
			}
			return drawn
		})
	}
	return chosen
}

// hostsOf returns the nodes of a hierarchy.
func (s *Scene) hostsOf(v view) sets.Set[string] {
	levels, _ := v.above()
	cluster, hosts := s.Planner.Cluster(), sets.New[string]()
	cluster.Tree(levels, v.selector).AllNodes(topology.Root, func(id topology.NodeID) bool {
		hosts.Insert(cluster.NodeName(id))
		return true
	})
	return hosts
}

// isOn reports whether all of a graph's pods that have a node are on these hosts.
func (g *graphPods) isOn(hosts sets.Set[string]) bool {
	return !slices.ContainsFunc(g.pods, func(p memberPod) bool { return p.node != "" && !hosts.Has(p.node) })
}

// undrawn returns notes that name the undrawn topologies and their levels.
func (s *Scene) undrawn(views, chosen []view, graphs []*graphPods) []string {
	var notes []string
	for _, v := range views {
		if v.name == "" || slices.ContainsFunc(chosen, v.equal) || s.Topology != nil {
			continue
		}
		var names []string
		for _, g := range graphs {
			if g.view.equal(v) {
				names = append(names, g.dgd.Namespace+"/"+g.dgd.Name)
			}
		}
		t := s.World.Topology(v.name)
		if t == nil || !v.equal(current(t)) {
			continue // another note reports its changed levels
		}
		slices.SortFunc(names, cli.Natural)
		note := fmt.Sprintf("%s %s (%s) has the same hosts: --topology %s draws its levels.", t.Source(), v.name, strings.Join(v.names(), " > "),
			v.name)
		if len(names) > 0 {
			note = fmt.Sprintf("%s %s placed by %s %s (%s): --topology %s draws its levels.",
				few(names), map[bool]string{true: "is", false: "are"}[len(names) == 1], t.Source(), v.name, strings.Join(v.names(), " > "), v.name)
		}
		notes = append(notes, note)
	}
	return notes
}

// fewNames is the maximum number of graphs that a note names.
const fewNames = 3

func few(names []string) string { return limit.Join(names, len(names), fewNames, ", ") }
