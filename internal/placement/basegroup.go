// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import "github.com/trellis-k8s/trellis/internal/topology"

// baseGang is the name of the base gang in messages.
const baseGang = "base gang"

// baseGroup returns the base gang: the heads (see first) of all components with waiting replicas. Heads of paired roles form a subgroup.
func (a *attempt) baseGroup() *Group { return a.baseGroupOf(anyComponent) }

func anyComponent(*component) bool { return true }

func (a *attempt) baseGroupOf(belongs func(*component) bool) *Group {
	g := &Group{Name: baseGang, Required: topology.NoLevel, Preferred: a.p.graph.Preferred}
	var paired *Group
	for si, s := range a.p.components {
		if !belongs(s) {
			continue
		}
		in, head := g, a.headGroup(si, s.first())
		if a.p.pairRequired(s) {
			if paired == nil {
				paired = &Group{Name: "prefill and decode", Required: a.p.pairing.Level, Preferred: topology.NoLevel}
				g.Groups = append(g.Groups, paired)
			}
			in = paired
		}
		head.head = si + 1
		in.Groups = append(in.Groups, head)
	}
	return g
}

// settleBase records the places of a base gang's replicas, and calls note with the result of each replica.
func (a *attempt) settleBase(u *unit, note func(*ReplicaResult)) {
	for _, sub := range u.subs {
		if head := sub.group.head; head > 0 {
			a.settleHead(head-1, sub, note)
		} else {
			a.settleBase(sub, note)
		}
	}
}

// placeBase places the heads of the components that belong to the base gang and have no place yet.
func (a *attempt) placeBase(s *search, belongs func(*component) bool) bool {
	t := a.p.tree
	g := a.baseGroupOf(belongs)
	if len(g.Groups) == 0 {
		return true
	}
	if g.Preferred > t.LevelOf(a.bound) {
		g.want = a.rest(0, a.p.components[0].first(), true)
	}
	u := prepare(t, g)
	if !s.place(u, a.bound) {
		return false
	}
	s.reserve(u)
	a.soften(u.domain)
	a.settleBase(u, func(r *ReplicaResult) { r.Base = true })
	return true
}
