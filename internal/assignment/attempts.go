// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package assignment

// Attempts gives access to the recorded attempts of the replicas of one component. The zero value has none.
type Attempts struct {
	of        *Record
	component string
}

// Attempts returns the attempts of the replicas of a component.
func (r *Record) Attempts(component string) Attempts { return Attempts{r, component} }

// Last returns [Record.AttemptOf] of a replica.
func (a Attempts) Last(ordinal int32) int32 {
	if a.of == nil {
		return 0
	}
	return a.of.AttemptOf(Key{a.component, int(ordinal)})
}

// Lowest returns [Record.LowestAttempt] of a replica.
func (a Attempts) Lowest(ordinal int32) int32 {
	if a.of == nil {
		return 0
	}
	return a.of.LowestAttempt(Key{a.component, int(ordinal)})
}

// Assigned returns the place of a replica in an assigned gang, and the name of the gang; false for none.
func (a Attempts) Assigned(ordinal int32) (gang string, place Place, assigned bool) {
	if a.of == nil {
		return "", Place{}, false
	}
	key := Key{a.component, int(ordinal)}
	place, assigned = a.of.Assigned(key)
	return a.of.GangOf(key), place, assigned
}

// Members returns [Record.Members] of a gang, also of other components.
func (a Attempts) Members(gang string) (members []Key, base bool) {
	if a.of == nil {
		return nil, false
	}
	return a.of.Members(gang)
}
