// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"math"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// Bounds of one plan, in comparisons ([topology.Cluster.Work]). A search is bounded by its steps; a plan makes many searches, counts every
// shape of the graph on every node, and explains what it refuses.
const (
	// DefaultPlanBudget is how many comparisons one plan may take on a small cluster: about a second.
	DefaultPlanBudget = 20_000_000
	// planBudgetPerNode comes on top for each node. It counts 64 shapes there a few times.
	planBudgetPerNode = 1_000
)

// planBudget is how many comparisons one plan may take.
func (o Options) planBudget(c *topology.Cluster) uint64 {
	if o.PlanBudget > 0 {
		return uint64(o.PlanBudget)
	}
	return DefaultPlanBudget + planBudgetPerNode*uint64(c.Size())
}

// planned is the options of everything that belongs to one plan which begins now.
func (o Options) planned(c *topology.Cluster) Options {
	if o.end == 0 {
		o.end = c.Work() + o.planBudget(c)
	}
	return o
}

// left is how many comparisons the plan may still take; 0 when it is over its budget, and no bound outside of a plan.
func (o Options) left(c *topology.Cluster) uint64 {
	switch {
	case o.end == 0:
		return math.MaxInt64
	case o.end < c.Work():
		return 0
	}
	return o.end - c.Work()
}

// over reports whether the plan has used up its budget: what is left of it is refused without a look.
func (p *planner) over() bool { return p.options.left(p.cluster) == 0 }

// half runs f with half of what is left of the plan's budget, so that the other half is left for what follows.
func (p *planner) half(f func()) {
	end := p.options.end
	p.options.end = p.cluster.Work() + p.options.left(p.cluster)/2
	f()
	p.options.end = end
}

// unplanned is the refusal of a gang for which nothing is left of the plan's budget.
func (p *planner) unplanned(g *Group, level int) *Refusal {
	return unplanned(p.cluster, p.tree, g, max(level, topology.NoLevel), p.options)
}

func unplanned(c *topology.Cluster, t *topology.Tree, g *Group, level int, o Options) *Refusal {
	return &Refusal{
		Code: CodeBudgetExhausted, Gang: g.Name, Need: needsOf(g), Apart: g.Apart, Level: level, LevelName: t.Levels().Name(level),
		Compared: o.planBudget(c),
	}
}

// needsOf adds up what a group asks for, without counting it on any node.
func needsOf(g *Group) (list []Need) {
	keys := map[string]int{}
	var add func(g *Group)
	add = func(g *Group) {
		for i := range g.Pods {
			at, known := keys[g.Pods[i].Shape.Key()]
			if !known {
				at = len(list)
				keys[g.Pods[i].Shape.Key()] = at
				list = append(list, Need{Requests: g.Pods[i].Shape.Requests()})
			}
			list[at].Pods++
		}
		for _, sub := range g.Groups {
			add(sub)
		}
	}
	add(g)
	return list
}
