// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"math"
	"slices"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// clearing removes the pods of lower priority from one domain, to find out which of these pods can stay.
type clearing struct {
	p      *planner
	group  *Group
	domain topology.DomainID
	// victims lists the pods of lower priority by node. gone contains the nodes from which these pods are currently removed.
	victims map[topology.NodeID][]topology.Victim
	gone    map[topology.NodeID]bool
	gangs   []gangAt
}

// gangAt is a gang with members in the domain.
type gangAt struct {
	name     string
	priority int32
	pods     int
	nodes    []topology.NodeID
}

// clear finds a preemption in one domain that makes room for a group; nil when the group does not fit. clear rolls back all its changes of
// the cluster.
func (p *planner) clear(g *Group, d topology.DomainID) *freeing {
	c := &clearing{p: p, group: g, domain: d, victims: map[topology.NodeID][]topology.Victim{}, gone: map[topology.NodeID]bool{}}
	if !c.collect() {
		return nil
	}
	p.cluster.Begin()
	defer p.cluster.Rollback()
	for n, victims := range c.victims {
		c.gone[n] = true
		for _, v := range victims {
			p.cluster.Evict(v)
		}
	}
	if !c.fits() {
		return nil
	}
	best := c.sparing(func(a, b gangAt) int { return cmp.Compare(b.pods, a.pods) })
	if best != nil && len(best.cost.gangs) < 2 {
		return best
	}
	// Preempting one large gang may save many small gangs.
	other := c.sparing(func(a, b gangAt) int { return cmp.Compare(a.pods, b.pods) })
	if best == nil || other != nil && other.cost.compare(&best.cost) < 0 {
		return other
	}
	return best
}

func (c *clearing) collect() bool {
	var list []topology.Victim
	c.p.tree.AllNodes(c.domain, func(n topology.NodeID) bool {
		list = c.p.cluster.Victims(list, n, c.p.graph.Priority)
		return len(list) < preemptVictims
	})
	slices.SortFunc(list, func(a, b topology.Victim) int {
		return cmp.Or(cmp.Compare(a.Gang, b.Gang), cmp.Compare(a.Node, b.Node), cmp.Compare(a.ID, b.ID))
	})
	for _, v := range list {
		c.victims[v.Node] = append(c.victims[v.Node], v)
		if len(c.gangs) == 0 || c.gangs[len(c.gangs)-1].name != v.Gang {
			c.gangs = append(c.gangs, gangAt{name: v.Gang, priority: v.Priority})
		}
		g := &c.gangs[len(c.gangs)-1]
		g.pods++
		g.priority = max(g.priority, v.Priority)
		g.nodes = append(g.nodes, v.Node)
	}
	return len(list) > 0
}

// fits reports whether the group fits into the domain in its current state.
func (c *clearing) fits() bool {
	u := prepare(c.p.tree, c.group)
	s := c.search()
	found := s.place(u, c.domain)
	s.giveBack(0)
	return found
}

func (c *clearing) search() *search {
	s := newSearch(c.p.cluster, c.p.tree, c.p.options)
	s.steps = min(s.steps, preemptBudget)
	return s
}

// sparing puts back as many gangs as possible, and places the group on the remaining capacity. It first puts back the gangs of higher
// priority. Gangs of the same priority follow in the given order.
func (c *clearing) sparing(order func(a, b gangAt) int) *freeing {
	gangs := slices.Clone(c.gangs)
	slices.SortStableFunc(gangs, func(a, b gangAt) int { return cmp.Or(cmp.Compare(b.priority, a.priority), order(a, b)) })
	before := c.gone
	c.gone = map[topology.NodeID]bool{}
	for n := range before {
		c.gone[n] = true
	}
	c.p.cluster.Begin()
	c.p.half(func() { c.spare(gangs) })
	r := c.place()
	c.p.cluster.Rollback()
	c.gone = before
	return r
}

// spare puts gangs back if the group still fits afterwards. Otherwise it tries to put back each half of the list. On each node it puts back
// all pods or none, because the kube-scheduler chooses the victims on a node.
func (c *clearing) spare(gangs []gangAt) {
	if c.p.over() {
		return // place may still spare some of the gangs that are left
	}
	c.p.cluster.Begin()
	var back []topology.NodeID
	for i := range gangs {
		for _, n := range gangs[i].nodes {
			if !c.gone[n] {
				continue
			}
			delete(c.gone, n)
			back = append(back, n)
			for _, v := range c.victims[n] {
				c.p.cluster.Spare(v)
			}
		}
	}
	if len(back) == 0 || c.fits() {
		c.p.cluster.Commit()
		return
	}
	c.p.cluster.Rollback()
	for _, n := range back {
		c.gone[n] = true
	}
	if len(gangs) > 1 {
		c.spare(gangs[:len(gangs)/2])
		c.spare(gangs[len(gangs)/2:])
	}
}

// place places the group on the free capacity and determines which pods have to be preempted.
func (c *clearing) place() *freeing {
	u, s := prepare(c.p.tree, c.group), c.search()
	if !s.place(u, c.domain) {
		return nil
	}
	taken := slices.Clone(s.taken)
	s.settle()
	r := &freeing{domain: c.domain, unit: u, cost: cost{highest: math.MinInt32}}
	for n := range c.gone {
		for _, v := range c.p.cluster.SpareWhatFits(c.victims[n]) {
			r.cost.gangs = append(r.cost.gangs, v.Gang)
			r.cost.highest = max(r.cost.highest, v.Priority)
			r.cost.pods++
		}
	}
	slices.Sort(r.cost.gangs)
	r.cost.gangs = slices.Compact(r.cost.gangs)
	for _, t := range taken {
		t.demand.view.Give(t.node, t.pods)
	}
	return r
}
