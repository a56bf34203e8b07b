// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package assignment

import (
	"cmp"
	"time"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// Shown is the state of one replica as its pods show it.
type Shown struct {
	// Gang is the gang of the released pods; "" without a visible release.
	Gang string
	// Domain is the domain of the released pods. Hosts are the planned hosts of the unbound pods, by index.
	Domain topology.Path
	Hosts  []string
	State  State
	// Attempt is the attempt of the released pods; 0 for pods of an earlier operator version.
	Attempt int32
	// Base: an earlier operator version released the pods as part of the graph's base gang. Base is used only if the gang is not recorded.
	Base bool
}

// State is the progress of a replica.
type State int

const (
	// Waits means that pods exist, all of them gated.
	Waits State = iota
	// Underway means that the cache does not show the release or the creation of a pod yet.
	Underway
	// Released means that at least one pod is released, and not all pods are bound.
	Released
	// AllBound means that all pods are bound.
	AllBound
	// Ending means that a pod is lost or deleted, so that the replica is recreated.
	Ending
	// Lost is Ending for a replica whose pods were all bound.
	Lost
)

// Follow updates the record with the state of the graph's pods. shown has an entry for each replica with pods. Follow adds replicas that
// the record lacks. A replica without pods keeps its last place while wanted returns true. Gated pods of a gang keep their places for a
// later release while stands returns true. A base gang with released pods keeps its replicas until all of them are bound. Until then, the
// gang's replicas without pods, or with gated pods, are placed again as part of the gang.
func (r *Record) Follow(shown map[Key]Shown, wanted func(Key) bool, stands func(gang string) bool, now time.Time) {
	was, begun := r.keys(), r.begunBaseGang(shown)
	for key, gang := range was {
		one, has := shown[key]
		if has && one.State == Waits && gang != "" && r.Gangs[gang].State == trellisv1alpha1.GangAssigned && stands(gang) {
			continue
		}
		switch {
		case !has || one.State == Waits:
			r.followMissing(key, gang == begun, wanted(key))
		case one.State == Released || one.State == AllBound:
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

// BaseGang returns the name of the graph's unbound base gang; "" for none. An assigned base gang takes precedence over an evicted base
// gang.
func (r *Record) BaseGang() (name string) {
	for of, g := range r.Gangs {
		if g.Base && (name == "" || g.State == trellisv1alpha1.GangAssigned) {
			name = of
		}
	}
	return name
}

// begunBaseGang returns the name of the assigned base gang if it has released pods; "" otherwise.
func (r *Record) begunBaseGang(shown map[Key]Shown) string {
	name := r.BaseGang()
	if r.Gangs[name].State != trellisv1alpha1.GangAssigned {
		return ""
	}
	for key := range r.Gangs[name].Places {
		if one, has := shown[key]; has && (one.State != Waits && one.State != Ending) {
			return name
		}
	}
	return ""
}

// followMissing updates a replica without released pods. If its base gang has released pods, the replica stays in the gang, without hosts.
func (r *Record) followMissing(key Key, begun, wanted bool) {
	gang := r.gangOf[key]
	if gang == "" || !begun || !wanted {
		r.retire(key, wanted)
		return
	}
	p := r.Gangs[gang].Places[key]
	p.Hosts = nil
	r.Gangs[gang].Places[key] = p
}

// retire moves a replica to Former if it is wanted, and removes it otherwise.
func (r *Record) retire(key Key, wanted bool) {
	if last := r.take(key); wanted {
		last.Hosts = nil
		r.Former[key] = last
	}
}

// followReleased updates the place of a recorded replica from the replica's released pods. It ignores pods of an earlier attempt, because
// they are being deleted.
func (r *Record) followReleased(key Key, gang string, one Shown, now time.Time) {
	bound, is := r.Bound[key]
	switch {
	case one.Attempt > 0 && one.Attempt < r.LowestAttempt(key):
	case is && one.State == AllBound:
		bound.Domain, bound.Attempt = one.Domain, max(bound.Attempt, one.Attempt)
		r.Bound[key] = bound
	case gang != "" && (one.Gang == "" || one.Gang == gang):
		p := r.Gangs[gang].Places[key]
		p.Domain, p.Attempt = one.Domain, max(p.Attempt, one.Attempt)
		r.Gangs[gang].Places[key] = p
	default:
		r.imports(key, one, now)
	}
}

// imports adds to the record the place of a replica's released pods, if the record lacks this place. If the pods have no gang because
// another client removed their gates, imports records them only when all are bound.
func (r *Record) imports(key Key, one Shown, now time.Time) {
	attempt := cmp.Or(one.Attempt, r.AttemptOf(key)+1)
	switch {
	case one.Gang != "":
		r.take(key)
		r.Assign(one.Gang, key, one.Domain, one.Hosts, now)
		p := r.Gangs[one.Gang].Places[key]
		p.Attempt, p.NeverBound = attempt, false // not known
		if r.Gangs[one.Gang].Places[key] = p; one.Base {
			r.Begins(one.Gang)
		}
	case one.State == AllBound:
		r.take(key)
		r.Bound[key] = Place{Attempt: attempt, Domain: one.Domain}
	}
}

// settle moves the replicas of bound gangs to Bound, and clears the graph domain of a record without gangs and bound replicas.
func (r *Record) settle(shown map[Key]Shown) {
	for name, g := range r.Gangs {
		bound := g.State == trellisv1alpha1.GangAssigned
		for key := range g.Places {
			bound = bound && (shown[key].State == AllBound || shown[key].State == Lost)
		}
		if !bound {
			continue
		}
		for key, p := range g.Places {
			p.Hosts, p.NeverBound = nil, false
			r.Bound[key] = p
			delete(r.gangOf, key)
		}
		delete(r.Gangs, name)
	}
	if len(r.Gangs)+len(r.Bound) == 0 {
		r.Domain = nil
	}
}

// Evicting reports whether the eviction of a gang is recorded.
func (r *Record) Evicting(gang string) bool {
	return r != nil && r.Gangs[gang].State == trellisv1alpha1.GangEvicting
}

// Evicts reports whether any gang is being evicted.
func (r *Record) Evicts() bool {
	for _, g := range r.Gangs {
		if g.State == trellisv1alpha1.GangEvicting {
			return true
		}
	}
	return false
}

// Unbound reports whether any gang is assigned and not yet bound.
func (r *Record) Unbound() bool {
	for _, g := range r.Gangs {
		if g.State == trellisv1alpha1.GangAssigned {
			return true
		}
	}
	return false
}
