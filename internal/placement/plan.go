// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/trellis-k8s/trellis/internal/bools"
	"github.com/trellis-k8s/trellis/internal/limit"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// PlanGraph places every waiting replica that fits, and reserves capacity for the replica's pods in the cluster. It first drops the pods'
// existing reservations. A what-if wraps the call in Begin and Rollback.
//
// The plan initially excludes avoided hosts and last-resort places. As long as a replica is refused, PlanGraph allows more of these hosts
// and places, and plans again.
//
// The score of the result is the [Score] of the placed replicas.
func PlanGraph(c *topology.Cluster, g Demand, o Options) Result {
	for si := range g.Components {
		for ri := range g.Components[si].Waiting {
			pods := g.Components[si].Waiting[ri].Pods
			for i := range pods {
				c.Forget(pods[i].ID)
			}
		}
	}
	if g.mixed() {
		return planParts(c, g, o)
	}
	if !g.avoids() {
		p := newPlanner(c, g, o)
		defer p.bind()()
		p.sortKinds()
		return p.result(p.decide())
	}
	for g = g.bounded(); ; {
		c.Begin()
		p := newPlanner(c, g.avoiding(), o)
		end := p.bind()
		p.sortKinds()
		a := p.decide()
		end()
		if !g.yield(a) {
			c.Commit()
			return p.result(a)
		}
		c.Rollback()
	}
}

// planner is the state of one PlanGraph call.
type planner struct {
	cluster    *topology.Cluster
	tree       *topology.Tree
	graph      Demand
	options    Options
	components []*component
	// pairing places the replicas of two roles together; nil for none.
	pairing *Pairing
}

// component is a Component with sorted replicas; kinds groups them by their requests.
type component struct {
	Component
	kinds []kind
	// of contains, for each waiting replica, the index of its kind in kinds.
	of []int
}

func newPlanner(c *topology.Cluster, g Demand, o Options) *planner {
	if len(g.Levels) == 0 {
		g.Required, g.Preferred = rootLevel(g.Required), topology.NoLevel
	}
	p := &planner{cluster: c, tree: c.Tree(g.Levels, g.NodeSelector), graph: g, options: o.planned(c), pairing: g.pairing()}
	for _, s := range g.Components {
		if len(g.Levels) == 0 {
			s.Required, s.Preferred = rootLevel(s.Required), topology.NoLevel
		}
		if len(s.Waiting) == 0 {
			continue
		}
		s.Waiting = slices.Clone(s.Waiting)
		slices.SortFunc(s.Waiting, func(a, b Replica) int {
			return cmp.Or(bools.Compare(a.Later, b.Later), cmp.Compare(a.Ordinal, b.Ordinal))
		})
		p.components = append(p.components, &component{Component: s})
	}
	slices.SortFunc(p.components, func(a, b *component) int { return strings.Compare(a.Name, b.Name) })
	return p
}

// rootLevel returns the level to use without a topology: the whole cluster, unless the level is known to be gone.
func rootLevel(level int) int {
	if level == topology.GoneLevel {
		return level
	}
	return topology.NoLevel
}

// sortKinds groups the replicas of each component by their requests.
func (p *planner) sortKinds() {
	for _, s := range p.components {
		s.of = make([]int, len(s.Waiting))
		for i := range s.Waiting {
			s.kinds, s.of[i] = addKind(s.kinds, p.tree, s.Waiting[i].Pods)
		}
	}
}

// one reports whether all replicas of the component share one domain, as in a single-node component with a required level.
func (s *component) one() bool { return !s.Multinode && s.Required != topology.NoLevel }

func (p *planner) gone(level int) bool {
	return level == topology.GoneLevel || len(p.graph.Levels) > 0 && level >= len(p.graph.Levels)
}

// decide places the graph, and preempts pods where needed and allowed.
func (p *planner) decide() *attempt {
	a := p.run()
	if p.graph.Preempts && p.cluster.AnyBelow(p.graph.Priority) {
		a = p.preempt(a)
	}
	return a
}

// run chooses the domain of the graph and places the graph there.
func (p *planner) run() *attempt {
	g := &p.graph
	switch {
	case len(g.Anchor) > 0:
		d, found := p.tree.Find(g.Anchor)
		if !found {
			level := g.Anchor.Level()
			return p.refuseAll(&Refusal{Code: CodeDomainGone, Within: g.Anchor, Level: level, LevelName: g.Levels.Name(level)})
		}
		return p.attempt(d, false, nil)
	case p.gone(g.Required):
		return p.refuseAll(levelGone("", g.Required))
	case g.Required != topology.NoLevel:
		return p.choose()
	}
	return p.attempt(topology.Root, false, nil)
}

// free reports whether no replica of the graph is placed yet, so that the plan may choose the graph's domain.
func (p *planner) free() bool {
	for _, s := range p.components {
		if s.Placed > 0 {
			return false
		}
	}
	return true
}

// refuseAll refuses every waiting replica with the same refusal.
func (p *planner) refuseAll(r *Refusal) *attempt {
	a := newAttempt(p, topology.Nowhere)
	for si, s := range p.components {
		for ri := range s.Waiting {
			a.refuse(si, ri, r)
		}
	}
	return a
}

// result converts an attempt to a Result, and releases the capacity of the later replicas.
func (p *planner) result(a *attempt) Result {
	out := Result{Domain: p.domainOf(a)}
	a.dropLater()
	short := &Shortfall{Domain: out.Domain}
	for si, s := range p.components {
		missing := 0
		for ri := range s.now() {
			r := a.results[si][ri]
			out.Replicas = append(out.Replicas, r)
			if r.Refusal != nil {
				missing++
			}
		}
		short.Wanted += s.now()
		short.Placed += s.now() - missing
		if missing > 0 {
			short.Missing = append(short.Missing, ComponentShortfall{Component: s.Name, Missing: missing})
		}
	}
	if out.Domain != nil && len(short.Missing) > 0 {
		out.Shortfall = short
	}
	out.Score = p.score(out.Replicas)
	return out
}

// domainOf returns the graph domain after an attempt; nil for none.
func (p *planner) domainOf(a *attempt) topology.Path {
	anchored := len(p.graph.Anchor) > 0
	switch {
	case a.bound != topology.Nowhere && (anchored || p.graph.Required != topology.NoLevel && a.placed > 0):
		return p.tree.Path(a.bound)
	case anchored:
		return p.graph.Anchor
	}
	return nil
}

// Text summarizes the missing replicas in one line: "zone-a holds 3 of 5 replicas; missing: decode 2".
func (s *Shortfall) Text() string {
	parts := make([]string, 0, len(s.Missing))
	for _, m := range s.Missing {
		parts = append(parts, fmt.Sprintf("%s %d", name(m.Component), m.Missing))
	}
	return limit.Text(fmt.Sprintf("%s holds %d of %d replicas; missing: %s", pathText(s.Domain), s.Placed, s.Wanted, strings.Join(parts,
		", ")), MaxMessage)
}
