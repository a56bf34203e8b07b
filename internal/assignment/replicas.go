// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package assignment

import "slices"

// Replicas gives access to the recorded replicas of one component. The zero value has none.
type Replicas struct {
	of        *Record
	component string
}

// Replicas returns the recorded replicas of a component; none for a nil record.
func (r *Record) Replicas(component string) Replicas { return Replicas{r, component} }

func (r Replicas) key(ordinal int32) Key { return Key{r.component, int(ordinal)} }

// Ordinals returns the ordinals of the recorded replicas, sorted.
func (r Replicas) Ordinals() (ordinals []int) {
	if r.of == nil {
		return nil
	}
	for _, list := range []map[Key]Place{r.of.Bound, r.of.Former} {
		ordinals = r.appendOrdinals(ordinals, list)
	}
	for _, g := range r.of.Gangs {
		ordinals = r.appendOrdinals(ordinals, g.Places)
	}
	slices.Sort(ordinals)
	return ordinals
}

func (r Replicas) appendOrdinals(ordinals []int, places map[Key]Place) []int {
	for key := range places {
		if key.Component == r.component {
			ordinals = append(ordinals, key.Ordinal)
		}
	}
	return ordinals
}

// Ran returns [Record.Ran] of a replica.
func (r Replicas) Ran(ordinal int32) bool { return r.of.Ran(r.key(ordinal)) }

// WasBound reports whether all pods of a replica were bound at some attempt.
func (r Replicas) WasBound(ordinal int32) bool {
	place, recorded := r.of.PlaceOf(r.key(ordinal))
	return recorded && !place.NeverBound
}

// Last returns [Record.AttemptOf] of a replica.
func (r Replicas) Last(ordinal int32) int32 { return r.of.AttemptOf(r.key(ordinal)) }

// Lowest returns [Record.LowestAttempt] of a replica.
func (r Replicas) Lowest(ordinal int32) int32 {
	if r.of == nil {
		return 0
	}
	return r.of.LowestAttempt(r.key(ordinal))
}

// Assigned returns the place of a replica in an assigned gang, and the name of the gang; false for none.
func (r Replicas) Assigned(ordinal int32) (gang string, place Place, assigned bool) {
	if r.of == nil {
		return "", Place{}, false
	}
	key := r.key(ordinal)
	place, assigned = r.of.Assigned(key)
	return r.of.GangOf(key), place, assigned
}

// Members returns [Record.Members] of a gang, including its replicas of other components.
func (r Replicas) Members(gang string) (members []Key, base bool) {
	if r.of == nil {
		return nil, false
	}
	return r.of.Members(gang)
}

// Record returns the record that contains the replicas; nil for none.
func (r Replicas) Record() *Record { return r.of }
