// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"slices"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// Refused is a gang that a plan refused for lack of capacity.
type Refused struct {
	// Group is the gang, without its preferences.
	Group *Group
	// Level is the level whose domain must hold the gang; [topology.NoLevel]: none.
	Level int
	// Within is the domain that the gang must stay in; empty: the whole cluster.
	Within topology.Path
}

// FirstRefused returns the first gang of a demand that a plan refused for lack of capacity; nil when there is no such gang, or when the
// demand's components use different topologies.
func FirstRefused(c *topology.Cluster, g Demand, r *Result, o Options) *Refused {
	if g.mixed() {
		return nil
	}
	p := newPlanner(c, g.avoiding(), o)
	p.sortKinds()
	group, level, bound := p.firstRefused(r)
	if group == nil {
		return nil
	}
	withoutPreference(group)
	u := prepare(p.tree, group)
	if u.gone {
		return nil
	}
	if u.within != topology.Nowhere {
		bound = u.within
	}
	return &Refused{Group: group, Level: max(level, topology.NoLevel), Within: p.tree.Path(bound)}
}

// PlanTogether is [PlanGroup] for pods that may have rules about other pods, volumes or claims. It does not change the group. It returns
// nil when it finds no place within the budgets of the options.
func PlanTogether(c *topology.Cluster, levels topology.Levels, nodeSelector map[string]string, g *Group, o Options) *GroupResult {
	t, o := c.Tree(levels, nodeSelector), o.planned(c)
	bound, end := bindGroup(c, t, g, &o)
	defer end()
	u, s := prepare(t, bound), newSearch(c, t, o)
	if u.gone || !s.place(u, topology.Root) {
		return nil
	}
	s.reserve(u)
	return groupResult(c, t, u, bound)
}

// bindGroup reads the binding rules of a group's pods, and returns a copy of the group with these rules in its shapes. Until end is called,
// the rules are updated with every change of the plan.
func bindGroup(c *topology.Cluster, t *topology.Tree, g *Group, o *Options) (bound *Group, end func()) {
	if len(c.Binders) == 0 {
		return g, func() {}
	}
	var shapes []*topology.Shape
	g.each(func(one *Group) {
		for i := range one.Pods {
			if s := one.Pods[i].Shape; !slices.Contains(shapes, s) {
				shapes = append(shapes, s)
			}
		}
	})
	c.Until(o.end)
	o.bindings = c.Bindings(t, shapes)
	if len(o.bindings) == 0 {
		c.Until(0)
		return g, func() {}
	}
	ruled := map[*topology.Shape]*topology.Shape{}
	for _, s := range shapes {
		ruled[s] = o.ruled(s)
	}
	unfollow := c.Follow(o.bindings)
	return g.withShapes(ruled), func() {
		unfollow()
		c.Until(0)
	}
}

// each calls f for a group and all groups in it.
func (g *Group) each(f func(*Group)) {
	f(g)
	for _, sub := range g.Groups {
		sub.each(f)
	}
}

// withShapes returns a copy of a group with the shapes of its pods replaced.
func (g *Group) withShapes(shapes map[*topology.Shape]*topology.Shape) *Group {
	out := *g
	out.Pods, out.Groups = slices.Clone(g.Pods), make([]*Group, 0, len(g.Groups))
	for i := range out.Pods {
		out.Pods[i].Shape = shapes[out.Pods[i].Shape]
	}
	for _, sub := range g.Groups {
		out.Groups = append(out.Groups, sub.withShapes(shapes))
	}
	return &out
}
