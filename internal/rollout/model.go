// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"slices"
)

// State of a replica as its pods show it, from the least to the most that can be lost with it.
type State int

// The states of a replica.
const (
	// Lost: as Leaving, but what is left does not end, because no kubelet confirms it. Its ordinal is taken for as long, and another one is
	// made.
	Lost State = iota - 1
	// Leaving: nothing of it lives; what is left is on its way out.
	Leaving
	// Broken: it lost a member; a replica is recreated as a unit.
	Broken
	// Partial: not all of its pods are made yet, and none was released.
	Partial
	// Waiting: whole, not placed.
	Waiting
	// Starting: it is placed and does not serve yet, or not any more.
	Starting
	// Available: every pod is ready.
	Available
)

// Replica is one replica of the component.
type Replica struct {
	Ordinal int
	State   State
	// Outdated: it runs an older revision, or from before the last restart that was asked for.
	Outdated bool
	// InSet: another controller makes the rest of it, of the revision that it has.
	InSet bool
	// Unplaceable: it is Outdated and Waiting, and the scheduler does not place it as it is, because it is of another size than what is made
	// now, or of two revisions.
	Unplaceable bool
	// Generation of workers that it belongs to; "" for none.
	Generation string
	// Excess orders the replicas of a role by how far it is in excess in their domains: of several, the one with more is scaled in.
	Excess int
	// Neighbours counts the pods of other replicas, of any graph, in its domain: of several replicas, the one with fewer is scaled in.
	Neighbours int
	// Created is when its last pod was made, in seconds.
	Created int64
	// NoQuota: it waits for quota, and its queue of Kueue has none for it. KeepsQuota: a successor of the current revision gets the quota that
	// it has.
	NoQuota, KeepsQuota bool
	// Why it is Broken, for people.
	Why string
}

// active replicas count: they serve, or will without further doing.
func (r Replica) active() bool { return r.State >= Partial }

// Group is what is wanted of all replicas together.
type Group struct {
	// Replicas wanted.
	Replicas int
	// MaxUnavailable and MaxSurge bound an update, as numbers of replicas.
	MaxUnavailable, MaxSurge int
	// Recreate: an update stops all that is outdated before it makes anything.
	Recreate bool
	// Step of a generation of workers that all components replace together; nil: the group is updated by itself.
	Step *Step
	// Stopped: everything outdated goes and nothing is made, whatever that does to availability.
	Stopped bool
	// Leaving are the replicas that are to leave their nodes; see move. MovesInPlace: no successor is made before they go.
	Leaving      []Leave
	MovesInPlace bool
}

// Leave is a replica that is to leave its nodes.
type Leave struct {
	Ordinal int
	// Overdue: it goes without a successor, as far as MaxUnavailable allows.
	Overdue bool
}

// Removal is one replica that has to go, whole.
type Removal struct {
	Ordinal int
	Why     string
	// ScaleIn: nothing will follow it. Repair: it is Broken.
	ScaleIn, Repair bool
}

// Plan is the next step.
type Plan struct {
	// Remove these replicas, whole.
	Remove []Removal
	// Make the missing pods of these ordinals.
	Make []int
	// Blocked: the update cannot move until a replica finds capacity.
	Blocked bool
	// Waits describes what comes next, for people; empty when there is nothing to wait for.
	Waits string
}

// OnlyScaleIn is the part of the plan after which nothing has to be made.
func (p Plan) OnlyScaleIn() Plan {
	p.Remove = slices.DeleteFunc(slices.Clone(p.Remove), func(r Removal) bool { return !r.ScaleIn })
	p.Make = nil
	return p
}

// OnlyRepair is the part of the plan that removes broken replicas.
func (p Plan) OnlyRepair() Plan {
	p.Remove = slices.DeleteFunc(slices.Clone(p.Remove), func(r Removal) bool { return !r.Repair })
	p.Make = nil
	return p
}

func count(replicas []Replica, is func(Replica) bool) int {
	n := 0
	for _, r := range replicas {
		if is(r) {
			n++
		}
	}
	return n
}

func filter(replicas []Replica, is func(Replica) bool) []Replica {
	return slices.DeleteFunc(slices.Clone(replicas), func(r Replica) bool { return !is(r) })
}
