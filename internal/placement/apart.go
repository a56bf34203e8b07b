// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"github.com/trellis-k8s/trellis/internal/topology"
)

// apart places each pod of a replica on a different host (docs/placement.md#hosts-of-their-own). The views of these pods count at most one
// pod per host ([topology.Shape.Apart]), so they determine exactly which domains hold the replica. on contains the hosts that the replica
// has taken. Pods of different replicas may share a host, so the enclosing groups count the replica's pods like any other pods.
//
//	hosts of 8 GPUs, a replica of three pods of 2 GPUs:
//	a rack of two hosts holds 2 of 3, a rack of four holds the replica and, on three of its hosts, a second replica
type apart struct {
	on map[topology.NodeID]bool
	// tied: some pods of the replica already have hosts.
	tied bool
}

func apartOf(t *topology.Tree, g *Group) *apart {
	if !g.Apart {
		return nil
	}
	a := &apart{on: map[topology.NodeID]bool{}, tied: len(g.On) > 0}
	for _, id := range g.On {
		if n, has := t.HostOf(id); has {
			a.on[n] = true
		}
	}
	return a
}

// shape returns the shape by which views count the pods: s, or with apart a shape that fits at most once per host.
func (a *apart) shape(s *topology.Shape) *topology.Shape {
	if a == nil {
		return s
	}
	return s.Apart()
}

// sharing returns the unit's pod counts for use by the enclosing units. These counts ignore that the pods must be on different hosts.
func (u *unit) sharing(t *topology.Tree) []count {
	if u.apart == nil {
		return u.total
	}
	var total []count
	for _, d := range u.own {
		total = addCount(total, t.View(d.shape()), len(d.pods))
	}
	return total
}

// note records that the replica takes a host, or no longer takes it.
func (a *apart) note(n topology.NodeID, taken bool) {
	switch {
	case a == nil:
	case taken:
		a.on[n] = true
	default:
		delete(a.on, n)
	}
}

// nodeFit returns how many more pods of the demand a node holds.
func (d *demand) nodeFit(n topology.NodeID) int {
	if d.apart != nil && d.apart.on[n] {
		return 0
	}
	return d.view.NodeFit(n)
}

// fit returns how many more pods of the demand a domain holds.
func (d *demand) fit(t *topology.Tree, at topology.DomainID) int {
	fit := d.view.Fit(at)
	if d.apart == nil {
		return fit
	}
	for n := range d.apart.on {
		if home := t.Home(n); home != topology.Nowhere && t.Within(home, at) {
			fit -= d.view.NodeFit(n)
		}
	}
	return fit
}

// closed returns, for each child of a domain, how many pods the demand's view still counts on hosts that the replica has taken; nil if pods
// may share hosts.
func (d *demand) closed(t *topology.Tree, at topology.DomainID) map[topology.DomainID]int {
	if d.apart == nil {
		return nil
	}
	in := map[topology.DomainID]int{}
	for n := range d.apart.on {
		d.close(t, in, at, n)
	}
	return in
}

func (d *demand) close(t *topology.Tree, in map[topology.DomainID]int, at topology.DomainID, n topology.NodeID) {
	if home := t.Home(n); home != topology.Nowhere && home != at && t.Within(home, at) {
		in[t.At(home, t.LevelOf(at)+1)] += d.view.NodeFit(n)
	}
}
