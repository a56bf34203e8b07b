// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package assignment

import (
	"slices"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// This file has the queries about single replicas. A nil record has none.

// Ordinals returns the recorded replicas of a component, in order.
func (r *Record) Ordinals(component string) (ordinals []int) {
	if r == nil {
		return nil
	}
	add := func(key Key) {
		if key.Component == component {
			ordinals = append(ordinals, key.Ordinal)
		}
	}
	for key := range r.gangOf {
		add(key)
	}
	for _, list := range []map[Key]Place{r.Bound, r.Former} {
		for key := range list {
			add(key)
		}
	}
	slices.Sort(ordinals)
	return ordinals
}

// PlaceOf returns the recorded place of a replica, also a last one; false for none.
func (r *Record) PlaceOf(key Key) (place Place, recorded bool) {
	if r == nil {
		return Place{}, false
	}
	if place, recorded = r.Gangs[r.gangOf[key]].Places[key]; recorded {
		return place, true
	}
	if place, recorded = r.Bound[key]; recorded {
		return place, true
	}
	place, recorded = r.Former[key]
	return place, recorded
}

// Ran reports whether pods of a replica are or were in its recorded place. Those of a place with planned hosts in an assigned gang may not
// exist yet.
func (r *Record) Ran(key Key) bool {
	place, recorded := r.PlaceOf(key)
	return recorded && (len(place.Hosts) == 0 || r.Evicting(r.gangOf[key]))
}

// FormerDomain returns the domain of the place that a replica had before; nil for none. Pods may never have been in a place with planned
// hosts.
func (r *Record) FormerDomain(key Key) topology.Path {
	if place, _ := r.PlaceOf(key); len(place.Hosts) == 0 {
		return place.Domain
	}
	return nil
}

// AttemptOf returns the last attempt of a replica; 0 for none.
func (r *Record) AttemptOf(key Key) int32 {
	place, _ := r.PlaceOf(key)
	return place.Attempt
}

// LowestAttempt returns the lowest attempt of pods that count. For a replica in Former it is the attempt after the last one: pods of the
// last attempt, which another operator instance released or created meanwhile, do not count.
func (r *Record) LowestAttempt(key Key) int32 {
	lowest := r.AttemptOf(key)
	if r != nil {
		if _, is := r.Former[key]; is {
			lowest++
		}
	}
	return lowest
}
