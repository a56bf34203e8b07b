// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"cmp"
	"fmt"
	"slices"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/assignment"
	"github.com/trellis-k8s/trellis/internal/constraint"
	"github.com/trellis-k8s/trellis/internal/placement"
)

// Excess returns the ranks of a group's bound replicas for a scale-in, by ordinal. The replica with the highest rank is removed first. A
// replica's rank grows with the excess of its role (prefill or decode) over the other role in the replica's recorded domain, so that the
// roles stay as balanced as possible after each removal. Of replicas with equal excess, the younger replica ranks higher. created has the
// creation times by ordinal. If both roles are scaled in at once, Excess ranks the replicas of all groups in one common order, so that both
// roles leave the same domains.
func Excess(sg *trellisv1alpha1.ScalingGroup, groups []*trellisv1alpha1.ScalingGroup, record *assignment.Record, created map[int32]int64,
) map[int32]int {
	if record == nil {
		return nil
	}
	e := &excess{bound: record.Bound, counts: map[string][2]int{}}
	level := constraint.Level(sg.Spec.Topology, sg.Spec.Topology.KVTransferDomain)
	var own *shrinking
	for _, one := range groups {
		if RoleOf(one) == placement.NoRole {
			continue
		}
		c := e.add(one, level)
		if one.Spec.Component == sg.Spec.Component {
			own = c
			c.sort(created)
		}
	}
	if own == nil {
		return nil
	}
	e.scaleIn()
	for len(own.left) > 0 {
		e.take(own)
	}
	out := make(map[int32]int, len(own.taken))
	for i, ordinal := range own.taken {
		out[ordinal] = len(own.taken) - i
	}
	return out
}

// excess counts the replicas of both roles by domain while it removes replicas one by one.
type excess struct {
	bound  map[Key]assignment.Place
	groups []*shrinking
	counts map[string][2]int
	// wanted is the desired number of replicas of each role.
	wanted [2]int
}

// shrinking is a group from which replicas are removed.
type shrinking struct {
	name string
	role int
	at   map[int32]string
	// left are the ordinals of the remaining replicas. Of replicas with equal excess, the first in left is removed first. taken are the
	// ordinals of the removed replicas, in the order of removal. surplus is the number of replicas that the group must still remove in a
	// scale-in.
	left, taken []int32
	surplus     int
}

// add counts the bound replicas of a group by domain. A replica without a domain counts as the only replica of a separate domain.
func (e *excess) add(sg *trellisv1alpha1.ScalingGroup, level int) *shrinking {
	c := &shrinking{name: sg.Spec.Component, role: int(RoleOf(sg) - placement.Prefill), at: map[int32]string{}}
	for key, place := range e.bound {
		if key.Component != c.name {
			continue
		}
		domain := fmt.Sprintf("/%s/%d", c.name, key.Ordinal)
		if len(place.Domain) > level {
			domain = place.Domain.Truncate(level).String()
		}
		c.at[int32(key.Ordinal)] = domain
		c.left = append(c.left, int32(key.Ordinal))
		e.count(domain, c.role, 1)
	}
	c.sort(nil)
	c.surplus = len(c.left) - int(sg.Spec.Replicas)
	e.wanted[c.role] += int(sg.Spec.Replicas)
	e.groups = append(e.groups, c)
	return c
}

// sort puts younger replicas first.
func (c *shrinking) sort(created map[int32]int64) {
	slices.SortFunc(c.left, func(a, b int32) int { return cmp.Or(cmp.Compare(created[b], created[a]), cmp.Compare(b, a)) })
}

func (e *excess) count(domain string, role, replicas int) {
	n := e.counts[domain]
	n[role] += replicas
	e.counts[domain] = n
}

// scaleIn removes the surplus replicas of all groups, if both roles have surplus replicas. It removes one replica of each group in turn.
func (e *excess) scaleIn() {
	shrinks := func(role int) bool {
		return slices.ContainsFunc(e.groups, func(c *shrinking) bool { return c.role == role && c.surplus > 0 })
	}
	if !shrinks(0) || !shrinks(1) {
		return
	}
	slices.SortFunc(e.groups, func(a, b *shrinking) int { return cmp.Or(cmp.Compare(a.role, b.role), cmp.Compare(a.name, b.name)) })
	for _, c := range e.groups {
		slices.SortStableFunc(c.left, func(a, b int32) int { return cmp.Compare(c.at[b], c.at[a]) })
	}
	for more := true; more; {
		more = false
		for _, c := range e.groups {
			if c.surplus > 0 {
				c.surplus--
				more = true
				e.take(c)
			}
		}
	}
}

// take removes the replica in whose domain the group's role exceeds the other role most.
func (e *excess) take(c *shrinking) {
	best, most := 0, 0
	for i, ordinal := range c.left {
		n := e.counts[c.at[ordinal]]
		if over := n[c.role]*max(e.wanted[1-c.role], 1) - n[1-c.role]*max(e.wanted[c.role], 1); i == 0 || over > most {
			best, most = i, over
		}
	}
	ordinal := c.left[best]
	c.left = slices.Delete(c.left, best, best+1)
	c.taken = append(c.taken, ordinal)
	e.count(c.at[ordinal], c.role, -1)
}
