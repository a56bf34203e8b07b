// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"slices"
	"strings"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// placeRequired places a replica whose role requires a partner, or refuses it.
func (a *attempt) placeRequired(si, ri int) {
	if a.placeByNumbers(a.addPairKind(nil, si, ri)) && len(a.results[si][ri].Pods) > 0 {
		return
	}
	a.refuse(si, ri, a.pairRefusal(si, ri))
}

// pairRefusal explains why a replica has no place in a domain with replicas of both roles.
func (a *attempt) pairRefusal(si, ri int) *Refusal {
	g, members := a.pairedGroup(si, ri)
	if len(g.among) == 0 && len(members) < 2 {
		return a.noPartner(si, ri)
	}
	search, bound := newSearch(a.p.cluster, a.p.tree, a.p.options), a.bound
	if bound == topology.Nowhere {
		bound = topology.Root
	}
	r := search.refused(prepare(a.p.tree, g), bound)
	r.Paired = true
	return r
}

// pairedGroup returns the group of a replica, limited to the domains in use. If no domains are in use, it returns the group of the replica
// and a partner, to be placed in one domain.
func (a *attempt) pairedGroup(si, ri int) (g *Group, members map[*Group]pairMember) {
	if used := a.inUse(a.p.components[si].Waiting[ri].Generation); len(used) > 0 {
		g, members = a.partners([]pairMember{{si, ri}})
		g.among = used
		return g, members
	}
	some := []pairMember{{si, ri}}
	if partner, found := a.partnerOf(si, ri); found {
		some = append(some, partner)
	}
	return a.partners(some)
}

// partners returns replicas as one group that needs one domain of the pairing's level.
func (a *attempt) partners(some []pairMember) (*Group, map[*Group]pairMember) {
	g, members := a.pairGroup(some)
	level := a.p.pairing.Level
	if len(g.Groups) == 1 && g.Groups[0].Required <= level {
		g = g.Groups[0]
		g.Required = level
		return g, members
	}
	names := make([]string, 0, len(g.Groups))
	for _, sub := range g.Groups {
		names = append(names, sub.Name)
	}
	g.Name, g.Required = strings.Join(names, " and "), level
	return g, members
}

// partnerOf returns the first waiting replica of the other role that may go to the same domains.
func (a *attempt) partnerOf(si, ri int) (pairMember, bool) {
	s := a.p.components[si]
	for sj, other := range a.p.components {
		if other.Role != s.Role.other() || !a.p.pairable(other) {
			continue
		}
		for rj := range other.now() {
			if len(a.results[sj][rj].Pods) == 0 && other.Waiting[rj].asks(&s.Waiting[ri]) {
				return pairMember{sj, rj}, true
			}
		}
	}
	return pairMember{}, false
}

// preemptPaired preempts pods for a replica whose role requires a partner: in a domain in use, or together with a partner.
func (p *planner) preemptPaired(a *attempt, si, ri int) bool {
	g, members := a.pairedGroup(si, ri)
	if len(g.among) == 0 && len(members) < 2 {
		return false
	}
	bound := a.bound
	if bound == topology.Nowhere {
		bound = topology.Root
	}
	freed := p.freeCapacity(g, max(g.Required, p.graph.Required), bound)
	if freed == nil {
		return false
	}
	freed.reserve(p)
	freed.unit.all(func(x *unit) {
		if m, is := members[x.group]; is {
			a.results[m.component][m.replica].Refusal = nil
			a.settle(m.component, m.replica, x)
			a.results[m.component][m.replica].Preempts = freed.cost.preemption()
		}
	})
	return true
}

// preemptPairedHead preempts pods for the first replicas of a component whose role requires a partner: in a domain in use, or together with
// the head of the other role.
func (p *planner) preemptPairedHead(a *attempt, si int) {
	s, bound := p.components[si], a.bound
	if bound == topology.Nowhere {
		bound = topology.Root
	}
	first := &s.Waiting[0]
	g := a.baseGroupOf(func(one *component) bool {
		return one == s || one.Role == s.Role.other() && p.pairable(one) && one.Waiting[0].asks(first)
	}).Groups[0]
	g.Groups = slices.DeleteFunc(g.Groups, func(head *Group) bool { return a.results[head.head-1][0].Refusal == nil })
	if g.among = a.inUse(first.Generation); len(g.among) > 0 {
		g.Groups = slices.DeleteFunc(g.Groups, func(head *Group) bool { return head.head != si+1 })
	} else if len(g.Groups) < 2 {
		return
	}
	freed := p.freeCapacity(g, max(g.Required, p.graph.Required), bound)
	if freed == nil {
		return
	}
	freed.reserve(p)
	a.settleBase(freed.unit, func(r *ReplicaResult) { r.Refusal, r.Preempts = nil, freed.cost.preemption() })
}

// onlyAmong removes from a list the domains that the unit's group does not allow.
func (u *unit) onlyAmong(t *topology.Tree, domains []topology.DomainID) []topology.DomainID {
	if u.group.among == nil {
		return domains
	}
	return slices.DeleteFunc(slices.Clone(domains), func(d topology.DomainID) bool {
		return !slices.ContainsFunc(u.group.among, func(one topology.DomainID) bool { return t.Within(d, one) })
	})
}
