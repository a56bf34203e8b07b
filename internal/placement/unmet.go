// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"slices"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// Unmet contains the requests of a graph's refused gangs. MayFit checks, by a few counts, whether a change of one node may allow one of
// these gangs to be placed. A change for which MayFit returns false causes no new plan of the graph:
//
//	refused: 4 pods x 8 GPUs in one rack of zone-a
//	a host of zone-b becomes free                    no
//	a host of zone-a/rack-1, which then holds 3 of 4 no
//	a host of zone-a/rack-2, which then holds 4 of 4 yes, unless the gang has parts that do not fit together
type Unmet struct {
	levels   topology.Levels
	selector map[string]string
	gangs    []unmetGang
}

// unmetGang is one refused gang: one domain of a level, inside another domain, must hold the given number of pods of each shape.
type unmetGang struct {
	level  int
	within topology.Path
	pods   []shapeCount
}

type shapeCount struct {
	shape *topology.Shape
	pods  int
}

// UnmetOf returns the requests of the gangs that a plan refused. It returns nil when a change of any node may matter: when a gang is
// refused for a reason other than capacity, or when the search was not completed.
func UnmetOf(g Demand, r *Result) *Unmet {
	if g.mixed() {
		return nil
	}
	u, waiting := &Unmet{levels: g.Levels, selector: g.NodeSelector}, podsByReplica(g)
	var base *unmetGang
	for i := range r.Replicas {
		one := &r.Replicas[i]
		if one.Refusal == nil {
			continue
		}
		switch {
		case one.Refusal.Code == CodeBaseGangWaits && !one.Base:
			continue // it follows the base gang
		case !one.Refusal.short() || one.Refusal.Ruled:
			return nil
		}
		gang := &unmetGang{level: one.Refusal.Level, within: one.Refusal.Within}
		if one.Base && base != nil {
			gang = base
		}
		for _, pod := range waiting[waitingReplica{one.Component, one.Ordinal}] {
			gang.count(pod.Shape)
		}
		if one.Base {
			base = gang
		} else if !slices.ContainsFunc(u.gangs, gang.alike) {
			u.gangs = append(u.gangs, *gang)
		}
	}
	if base != nil {
		u.gangs = append(u.gangs, *base)
	}
	if len(u.gangs) == 0 {
		return nil
	}
	return u
}

type waitingReplica struct {
	component string
	ordinal   int
}

func podsByReplica(g Demand) map[waitingReplica][]Pod {
	out := map[waitingReplica][]Pod{}
	for si := range g.Components {
		for _, replica := range g.Components[si].Waiting {
			out[waitingReplica{g.Components[si].Name, replica.Ordinal}] = replica.Pods
		}
	}
	return out
}

// alike reports whether two gangs fit into the same domains. Of several alike replicas, UnmetOf keeps one.
func (m *unmetGang) alike(o unmetGang) bool {
	return m.level == o.level && m.within.Equal(o.within) && slices.EqualFunc(m.pods, o.pods, func(a, b shapeCount) bool {
		return a.pods == b.pods && a.shape.Key() == b.shape.Key()
	})
}

func (m *unmetGang) count(shape *topology.Shape) {
	for i := range m.pods {
		if m.pods[i].shape == shape || m.pods[i].shape.Key() == shape.Key() {
			m.pods[i].pods++
			return
		}
	}
	m.pods = append(m.pods, shapeCount{shape, 1})
}

// MayFit reports whether a refused gang may now fit into a domain of the node, whose free capacity has grown or whose labels have changed.
// It counts each shape separately. It never returns false if a plan would place the gang there.
func (u *Unmet) MayFit(c *topology.Cluster, node string) bool {
	t := c.Tree(u.levels, u.selector)
	n, known := c.Node(node)
	if !known || t.Home(n) == topology.Nowhere {
		return false
	}
	return slices.ContainsFunc(u.gangs, func(m unmetGang) bool { return m.mayFit(c, t, node, t.Home(n)) })
}

func (m *unmetGang) mayFit(c *topology.Cluster, t *topology.Tree, node string, home topology.DomainID) bool {
	within, found := t.Find(m.within)
	d := t.At(home, m.level)
	if !found || d == topology.Nowhere || !t.Within(d, within) {
		return false
	}
	if !slices.ContainsFunc(m.pods, func(s shapeCount) bool { _, full := c.Why(node, s.shape); return !full }) {
		return false // the node takes none of the pods
	}
	return !slices.ContainsFunc(m.pods, func(s shapeCount) bool { return t.View(s.shape).Fit(d) < s.pods })
}
