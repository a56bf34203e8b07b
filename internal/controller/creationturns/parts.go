// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package creationturns

import (
	"maps"
	"slices"
	"time"
)

// part has the wants of one scaling group.
type part struct {
	Part
	at time.Time
	// overdue are the owners of gangs that were not completed during their turn. It is reset when all gangs of the group pause.
	overdue map[owner]bool
	// refused is the time at which the API server first refused a pod of the successors that the group still lacks; zero for never.
	refused time.Time
}

// succeed copies Succeeds and refused from the group's former wants. So a gang counts as a successor until it is complete, even after the
// pods of its predecessor are gone.
func (p *part) succeed(before *part) {
	for i := range p.Wants {
		want := &p.Wants[i]
		want.Succeeds = want.Succeeds || slices.ContainsFunc(before.Wants, func(b Want) bool { return b.Key == want.Key && b.Succeeds })
		if want.Succeeds {
			p.refused = before.refused
		}
	}
}

// decided returns the decisions about the gangs of a group, and the work that these decisions cause for the group.
func (p *part) decided(decisions map[Key]Decision) (own map[Key]Decision, todo told) {
	own = map[Key]Decision{}
	for i := range p.Wants {
		want := &p.Wants[i]
		d, waits := decisions[want.Key]
		if !waits {
			continue
		}
		d.Succeeds = want.Succeeds
		own[want.Key] = d
		todo.create = todo.create || d.Create && len(want.Missing) > 0
		todo.giveBack = todo.giveBack || d.GiveBack && want.Exists
		todo.overdue = todo.overdue || d.Overdue
	}
	return own, todo
}

// gangs returns the incomplete gangs, combined from the groups' parts. It ignores stale parts.
func (s *space) gangs(now time.Time) []*gang {
	byKey, members := map[Key]*gang{}, map[Key]map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(s.parts)) {
		one := s.parts[name]
		if now.Sub(one.at) >= stale {
			continue
		}
		for _, want := range one.Wants {
			g := byKey[want.Key]
			if g == nil {
				g = &gang{Want: Want{Key: want.Key, Name: want.Name, Ready: true}, created: one.Created, priority: one.Priority, known: true}
				byKey[want.Key], members[want.Key] = g, map[string]bool{}
			}
			g.add(one, &want, now)
			if want.Group == "" {
				for _, member := range one.Members {
					members[want.Key][member] = true
				}
			}
		}
	}
	var out []*gang
	for key, g := range byKey {
		for member := range members[key] {
			g.known = g.known && s.parts[member] != nil
		}
		if g.missing > 0 {
			out = append(out, g)
		}
	}
	return out
}

// add adds one group's part of the gang.
func (g *gang) add(one *part, want *Want, now time.Time) {
	g.Missing = append(g.Missing, want.Missing...)
	for i := range want.Missing {
		g.missing += want.Missing[i].Count
	}
	g.Exists, g.Succeeds, g.Others = g.Exists || want.Exists, g.Succeeds || want.Succeeds, g.Others || want.Others
	g.Ready = g.Ready && (want.Ready || len(want.Missing) == 0)
	g.resting, g.overdue = g.resting || one.Rests.has(want), g.overdue || one.overdue[want.owner()]
	g.insists = g.insists || want.Succeeds && !one.refused.IsZero() && now.Sub(one.refused) < within
	g.priority = max(g.priority, one.Priority)
	if one.Created.Before(g.created) {
		g.created = one.Created
	}
}
