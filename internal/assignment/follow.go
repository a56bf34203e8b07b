// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package assignment

import (
	"time"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// Shown is what the pods of one replica show.
type Shown struct {
	// Gang that they were released with; "" when none of them shows it yet.
	Gang string
	// Domain that the released ones are pinned to, and Hosts those of them that have no node, by index.
	Domain topology.Path
	Hosts  []string
	// State of the replica.
	State State
}

// State is how far a replica is.
type State int

const (
	// Waits means that pods of it exist, and none is released.
	Waits State = iota
	// Underway means that pods of it are being released or created, and not all of that is visible.
	Underway
	// Released means that pods of it are released, and not all pods have a node.
	Released
	// AllBound means that each pod has a node.
	AllBound
	// Ending means that a pod of it is lost or deleted, so all of it is recreated.
	Ending
)

// Follow takes in what the pods of the graph's replicas show; a replica without pods is left out. Pods that the record does not know are
// imported. wanted reports whether a replica is to exist: the last place of one that has no pods is kept for as long. stands reports
// whether a gang keeps the places of pods that wait: they are released there later.
func (r *Record) Follow(shown map[Key]Shown, wanted func(Key) bool, stands func(gang string) bool, now time.Time) {
	was := r.keys()
	for key, gang := range was {
		one, has := shown[key]
		if has && one.State == Waits && gang != "" && r.Gangs[gang].State == trellisv1alpha1.GangAssigned && stands(gang) {
			continue
		}
		if !has || one.State == Waits {
			r.retire(key, wanted(key))
			continue
		}
		if one.State == Released || one.State == AllBound {
			r.followReleased(key, gang, one, now)
		}
	}
	for key, one := range shown {
		if _, known := was[key]; !known && (one.State == Released || one.State == AllBound) {
			r.imports(key, one, now)
		}
	}
	r.settle(shown)
}

// retire notes that a replica has no place now.
func (r *Record) retire(key Key, wanted bool) {
	if last := r.take(key); wanted {
		last.Hosts = nil
		r.Former[key] = last
	}
}

// followReleased takes in where the released pods of a known replica are.
func (r *Record) followReleased(key Key, gang string, one Shown, now time.Time) {
	if bound, is := r.Bound[key]; is && one.State == AllBound {
		bound.Domain = one.Domain
		r.Bound[key] = bound
		return
	}
	if gang != "" && (one.Gang == "" || one.Gang == gang) {
		p := r.Gangs[gang].Places[key]
		p.Domain = one.Domain
		r.Gangs[gang].Places[key] = p
		return
	}
	r.imports(key, one, now)
}

// imports takes over the place of released pods as another one than was recorded. Pods without a gang, whose gates were removed by another
// client, are recorded when they have their nodes.
func (r *Record) imports(key Key, one Shown, now time.Time) {
	switch {
	case one.Gang != "":
		r.Assign(one.Gang, key, one.Domain, one.Hosts, now)
	case one.State == AllBound:
		r.Bound[key] = Place{Attempt: r.take(key).Attempt + 1, Domain: one.Domain}
	}
}

// settle moves the replicas of gangs of which each pod has a node to Bound, and forgets the domain of a graph that has no place.
func (r *Record) settle(shown map[Key]Shown) {
	for name, g := range r.Gangs {
		bound := true
		for key := range g.Places {
			bound = bound && shown[key].State == AllBound
		}
		if !bound {
			continue
		}
		for key, p := range g.Places {
			p.Hosts = nil
			r.Bound[key] = p
		}
		delete(r.Gangs, name)
	}
	if len(r.Gangs)+len(r.Bound) == 0 {
		r.Domain = nil
	}
}

// Unbound reports whether a gang is assigned and not bound yet.
func (r *Record) Unbound() bool {
	for _, g := range r.Gangs {
		if g.State == trellisv1alpha1.GangAssigned {
			return true
		}
	}
	return false
}
