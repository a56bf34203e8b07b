// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"slices"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// Bounds of preemption per gang.
const (
	// preemptTries is the maximum number of domains that are cleared to see whether the gang fits. preemptChoices is the maximum number of
	// compared domains in which the gang fits.
	preemptTries, preemptChoices = 256, 32
	// preemptVictims is the number of pods of one domain that are considered as victims, starting with the first nodes in path order.
	preemptVictims = 20_000
	// preemptBudget is the maximum number of steps of one search in a cleared domain.
	preemptBudget = 2_000
)

// preempt preempts pods of lower priority for the gangs that found no free capacity: for the base gang, or for each further gang
// separately. It chooses the hosts where the fewest gangs lose pods, then where the highest priority of a victim is lowest, then where the
// fewest pods are lost. It ignores preferred levels: they do not justify a preemption.
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

// preemptFor preempts pods for the replicas of a component: if lacking is set, for the replicas without which the component cannot run,
// else for its other replicas.
func (p *planner) preemptFor(a *attempt, si int, lacking bool) {
	s := p.components[si]
	if first := &a.results[si][0]; first.Head && first.Refusal != nil { // the others follow the head and are tried in a later plan
		if lacking && first.Refusal.Never == nil {
			p.preemptHead(a, si, s.first())
		}
		return
	}
	var failed []int // kinds for which preemption does not help
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

// refusedBase returns the refusal of the base gang; nil when there is no base gang or it is placed.
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
	if !p.headsPair((*component).first) {
		return refused
	}
	g := newAttempt(p, topology.Root).baseGroup()
	freed := p.freeCapacity(g, p.graph.Required, topology.Root)
	if freed == nil {
		return refused
	}
	a := newAttempt(p, freed.domain)
	freed.reserve(p)
	a.settleBase(freed.unit, func(r *ReplicaResult) { r.Base, r.Preempts = true, freed.cost.preemption() })
	for si, s := range p.components {
		for ri := s.first(); ri < len(s.Waiting); ri++ { // they are gangs of their own and are tried in a later plan
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

// freeing is a place for a gang and the preemptions that the gang needs there. The unit's demands already have their hosts.
type freeing struct {
	domain topology.DomainID
	unit   *unit
	cost   cost
}

// cost describes the victims of a preemption: the gangs that lose pods, and the number of these pods.
type cost struct {
	gangs []string
	// highest is the highest priority among the victims.
	highest int32
	pods    int
}

func (c *cost) compare(o *cost) int {
	return cmp.Or(cmp.Compare(len(c.gangs), len(o.gangs)), cmp.Compare(c.highest, o.highest), cmp.Compare(c.pods, o.pods))
}

func (c *cost) preemption() *Preemption { return &Preemption{Gangs: c.gangs, Pods: c.pods} }

// reserve reserves the gang's hosts although the victims still run on them.
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

// freeCapacity finds the domain of a level in which preemption for a group costs least; nil if there is none. It first tries domains with
// free capacity for most of the group.
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

// nearest sorts the domains of a level by how many of the unit's pods their free capacity holds, most first.
func (p *planner) nearest(u *unit, level int, bound topology.DomainID) []topology.DomainID {
	list := u.onlyAmong(p.tree, p.spreadOnly(u, bound, slices.Clone(p.tree.Domains(level, bound))))
	holds := make(map[topology.DomainID]int, len(list))
	for _, d := range list {
		holds[d] = atMost(u, d)
	}
	slices.SortStableFunc(list, func(a, b topology.DomainID) int { return cmp.Compare(holds[b], holds[a]) })
	return list
}
