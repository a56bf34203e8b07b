// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package assignment

import (
	"time"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// Shown is the state of one replica by its pods.
type Shown struct {
	// Gang of the released pods; "" without a visible release.
	Gang string
	// Domain of the released pods, and Hosts of the unbound ones, by index.
	Domain topology.Path
	Hosts  []string
	State  State
}

// State is the progress of a replica.
type State int

const (
	// Waits means that pods exist, all of them gated.
	Waits State = iota
	// Underway means that a release or a create is not visible yet.
	Underway
	// Released means that a pod is released, and a pod is unbound.
	Released
	// AllBound means that all pods are bound.
	AllBound
	// Ending means that a pod is lost or deleted, so that the replica is recreated.
	Ending
)

// Follow updates the record by the pods of the graph. shown has an entry for each replica with pods; unknown replicas are imported. The
// last place of a replica without pods is kept while wanted returns true. A gang for which stands returns true keeps the places of its
// gated pods, for a later release.
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

// retire moves a replica to Former, or forgets it.
func (r *Record) retire(key Key, wanted bool) {
	if last := r.take(key); wanted {
		last.Hosts = nil
		r.Former[key] = last
	}
}

// followReleased updates the place of a recorded replica by its released pods.
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

// imports records an unrecorded place of released pods. Pods without a gang, whose gates another client removed, are recorded when they are
// bound.
func (r *Record) imports(key Key, one Shown, now time.Time) {
	switch {
	case one.Gang != "":
		r.Assign(one.Gang, key, one.Domain, one.Hosts, now)
	case one.State == AllBound:
		r.Bound[key] = Place{Attempt: r.take(key).Attempt + 1, Domain: one.Domain}
	}
}

// settle moves the replicas of bound gangs to Bound, and forgets the domain of a graph without places.
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
			delete(r.gangOf, key)
		}
		delete(r.Gangs, name)
	}
	if len(r.Gangs)+len(r.Bound) == 0 {
		r.Domain = nil
	}
}

// Unbound reports whether a gang is assigned and unbound.
func (r *Record) Unbound() bool {
	for _, g := range r.Gangs {
		if g.State == trellisv1alpha1.GangAssigned {
			return true
		}
	}
	return false
}
