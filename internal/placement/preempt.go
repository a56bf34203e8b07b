// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"slices"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// Bounds of looking for capacity that others would have to free, per gang.
const (
	// preemptTries is how many domains are cleared to see whether the gang fits, preemptChoices how many in which it does are compared.
	preemptTries, preemptChoices = 256, 32
	// preemptVictims is how many pods of one domain are looked at, those of the first nodes in path order.
	preemptVictims = 20_000
	// preemptBudget is the number of search steps of one try.
	preemptBudget = 2_000
)

// preempt places what found no capacity by itself on hosts that pods of lower priority would have to leave: the base gang, or each further
// gang by itself. The domain, and the hosts in it, are those that break the fewest other gangs; then those of the lowest priority; then
// the fewest pods. Preferred levels are not worth a preemption and are left out.
func (p *planner) preempt(a *attempt) *attempt {
	if base := a.refusedBase(); base != nil {
		if r := base.Code; r != CodeInsufficientCapacity && r != CodeBudgetExhausted {
			return a
		}
		return p.preemptBase(a)
	}
	for _, lacking := range []bool{true, false} {
		for si := range p.components {
			p.preemptFor(a, si, lacking)
		}
	}
	return a
}

// preemptFor preempts for the replicas of a component that it lacks to run, or for its others.
func (p *planner) preemptFor(a *attempt, si int, lacking bool) {
	s := p.components[si]
	if first := &a.results[si][0]; first.Head && first.Refusal != nil { // the others follow, and have their turn next
		if lacking && first.Refusal.Never == nil {
			p.preemptHead(a, si, s.first())
		}
		return
	}
	var failed []int // kinds that cannot be helped
	for ri := range s.now() {
		r := a.results[si][ri].Refusal
		if r == nil || s.lacks(ri) != lacking || slices.Contains(failed, s.of[ri]) ||
			r.Code != CodeInsufficientCapacity && r.Code != CodeBudgetExhausted {
			continue
		}
		if !p.preemptReplica(a, si, ri) {
			failed = append(failed, s.of[ri])
		}
	}
}

// refusedBase is why the base gang was refused; nil when there is none or it is placed.
func (a *attempt) refusedBase() *Refusal {
	var first *Refusal
	for si := range a.results {
		if len(a.results[si]) > 0 && a.results[si][0].Base && a.results[si][0].Refusal != nil {
			first = cmp.Or(first, a.results[si][0].Refusal)
		}
	}
	return first
}

func (p *planner) preemptBase(refused *attempt) *attempt {
	g := newAttempt(p, topology.Root).baseGroup()
	freed := p.freeCapacity(g, p.graph.Required, topology.Root)
	if freed == nil {
		return refused
	}
	a := newAttempt(p, freed.domain)
	freed.reserve(p)
	a.settleBase(freed.unit, func(r *ReplicaResult) { r.Base, r.Preempts = true, freed.cost.preemption() })
	for si, s := range p.components {
		for ri := s.first(); ri < len(s.Waiting); ri++ { // they are gangs of their own and have their turn next
			a.refuse(si, ri, &Refusal{Code: CodeBaseGangWaits, Gang: baseGang})
		}
	}
	return a
}

func (p *planner) preemptReplica(a *attempt, si, ri int) bool {
	if p.pairRequired(p.components[si]) && len(p.components[si].Waiting[ri].Anchor) == 0 {
		return p.preemptPaired(a, si, ri)
	}
	g, bound := a.gangOf(si, ri), a.bound
	if bound == topology.Nowhere {
		bound = topology.Root
	}
	freed := p.freeCapacity(g, max(g.Required, p.graph.Required), bound)
	if freed == nil {
		return false
	}
	freed.reserve(p)
	a.results[si][ri].Refusal = nil
	a.settle(si, ri, freed.unit)
	a.results[si][ri].Preempts = freed.cost.preemption()
	return true
}

// freeing is a place for a gang, and what it costs others. The unit's demands know their hosts.
type freeing struct {
	domain topology.DomainID
	unit   *unit
	cost   cost
}

// cost is what a placement breaks.
type cost struct {
	gangs []string
	// highest priority among the victims.
	highest int32
	pods    int
}

func (c *cost) compare(o *cost) int {
	return cmp.Or(cmp.Compare(len(c.gangs), len(o.gangs)), cmp.Compare(c.highest, o.highest), cmp.Compare(c.pods, o.pods))
}

func (c *cost) preemption() *Preemption { return &Preemption{Gangs: c.gangs, Pods: c.pods} }

// reserve books the gang's hosts alongside the pods that still have to leave them.
func (r *freeing) reserve(p *planner) {
	r.unit.all(func(x *unit) {
		pin := p.tree.Labels(x.domain)
		for _, d := range x.own {
			for i, pod := range d.pods {
				p.cluster.AssumePinned(pod.ID, p.cluster.NodeName(d.hosts[i]), pod.Shape, pin)
			}
		}
	})
}

// freeCapacity finds the domain of a level in which a group gets its capacity at the least cost; nil when none does. Domains that lack
// least are tried first.
func (p *planner) freeCapacity(g *Group, level int, bound topology.DomainID) *freeing {
	withoutPreference(g)
	if p.over() {
		return nil
	}
	u := prepare(p.tree, g)
	if u.gone {
		return nil
	}
	if u.within != topology.Nowhere {
		if bound = u.within; level < p.tree.LevelOf(bound) {
			level = p.tree.LevelOf(bound)
		}
	}
	var best *freeing
	found := 0
	for i, d := range p.nearest(u, max(level, p.tree.LevelOf(bound)), bound) {
		if i == preemptTries || found == preemptChoices || p.over() {
			break
		}
		if r := p.clear(g, d); r != nil {
			if found++; best == nil || r.cost.compare(&best.cost) < 0 {
				best = r
			}
		}
	}
	return best
}

func withoutPreference(g *Group) {
	g.Preferred = topology.NoLevel
	if g.spread != nil && !g.spread.hard {
		g.spread = nil
	}
	for _, sub := range g.Groups {
		withoutPreference(sub)
	}
}

// nearest orders the domains of a level by how much of the unit they hold now.
func (p *planner) nearest(u *unit, level int, bound topology.DomainID) []topology.DomainID {
	list := u.onlyAmong(p.tree, p.spreadOnly(u, bound, slices.Clone(p.tree.Domains(level, bound))))
	holds := make(map[topology.DomainID]int, len(list))
	for _, d := range list {
		holds[d] = atMost(u, d)
	}
	slices.SortStableFunc(list, func(a, b topology.DomainID) int { return cmp.Compare(holds[b], holds[a]) })
	return list
}
