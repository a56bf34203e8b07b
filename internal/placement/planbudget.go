// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"math"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// Bounds of one plan, in comparisons ([topology.Cluster.Work]). Search steps bound only a single search. A plan runs many searches, counts
// every shape of the graph on every node, and explains its refusals.
const (
	// DefaultPlanBudget is the number of comparisons that one plan may take on a small cluster: about a second.
	DefaultPlanBudget = 20_000_000
	// planBudgetPerNode is added to the budget for each node. It suffices to count 64 shapes on the node several times.
	planBudgetPerNode = 1_000
)

// planBudget returns how many comparisons one plan may take.
func (o Options) planBudget(c *topology.Cluster) uint64 {
	if o.PlanBudget > 0 {
		return uint64(o.PlanBudget)
	}
	return DefaultPlanBudget + planBudgetPerNode*uint64(c.Size())
}

// planned returns the options for all searches of a plan that starts now. It sets the end of the plan's budget unless it is set already.
func (o Options) planned(c *topology.Cluster) Options {
	if o.end == 0 {
		o.end = c.Work() + o.planBudget(c)
	}
	return o
}

// left returns how many comparisons the plan may still take; 0 when its budget is used up, unlimited outside of a plan.
func (o Options) left(c *topology.Cluster) uint64 {
	switch {
	case o.end == 0:
		return math.MaxInt64
	case o.end < c.Work():
		return 0
	}
	return o.end - c.Work()
}

// over reports whether the plan has used up its budget. The remaining replicas are then refused without a search.
func (p *planner) over() bool { return p.options.left(p.cluster) == 0 }

// half runs f with half of the remaining plan budget, so that the other half is left for later work.
func (p *planner) half(f func()) {
	end := p.options.end
	p.options.end = p.cluster.Work() + p.options.left(p.cluster)/2
	f()
	p.options.end = end
}

// unplanned returns the refusal of a gang that is not planned because the plan's budget is used up.
func (p *planner) unplanned(g *Group, level int) *Refusal {
	return unplanned(p.cluster, p.tree, g, max(level, topology.NoLevel), p.options)
}

func unplanned(c *topology.Cluster, t *topology.Tree, g *Group, level int, o Options) *Refusal {
	return &Refusal{
		Code: CodeBudgetExhausted, Gang: g.Name, Need: needsOf(g), Apart: g.Apart, Level: level, LevelName: t.Levels().Name(level),
		Compared: o.planBudget(c),
	}
}

// needsOf returns the needs of a group, by shape. It examines no nodes.
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
