// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"slices"
)

// State is the state of a replica according to its pods. The states are ordered by the loss that the removal of the replica causes, the
// least loss first.
type State int

// The states of a replica.
const (
	// Lost is like Leaving, but the remaining pods do not disappear, because no kubelet confirms their termination. The replica's ordinal
	// stays in use. A replacement is created with another ordinal.
	Lost State = iota - 1
	// Leaving: all remaining pods are terminating or have ended.
	Leaving
	// Broken: the replica lost a pod. It is recreated as a unit.
	Broken
	// Partial: some pods are not created yet, and no pod was released.
	Partial
	// Waiting: all pods exist, and the replica is not placed.
	Waiting
	// Starting: the replica is placed and does not serve yet, or no longer serves.
	Starting
	// Available: every pod is ready.
	Available
)

// Replica is one replica of the component.
type Replica struct {
	Ordinal int
	State   State
	// Outdated: the replica runs an older revision, or is older than the last requested restart.
	Outdated bool
	// InSet: another controller creates the missing pods, with the revision of the replica.
	InSet bool
	// Unplaceable: the replica is Outdated and Waiting, and the scheduler does not place it, because its size differs from the current size
	// or its pods have two revisions.
	Unplaceable bool
	// Generation is the worker generation to which the replica belongs; "" for none.
	Generation string
	// Excess is the replica's rank by the excess of its role (prefill or decode) over the other role in its domain; 0 for no rank. The
	// replica with the larger Excess is scaled in first.
	Excess int
	// Neighbours counts the pods of other replicas, of any graph, in the replica's domain. The replica with fewer neighbours is scaled in
	// first.
	Neighbours int
	// Created is the creation time of the replica's last pod, in seconds.
	Created int64
	// NoQuota: the replica waits for quota that its Kueue queue does not have. KeepsQuota: a successor of the current revision gets the
	// replica's quota.
	NoQuota, KeepsQuota bool
	// Why explains to people why the replica is Broken.
	Why string
}

// active reports whether the replica counts towards the wanted replicas: it serves, or will serve once its pods exist, are placed and are
// ready.
func (r Replica) active() bool { return r.State >= Partial }

// denied reports whether a replica of the current revision waits for quota that its Kueue queue does not have.
func (r Replica) denied() bool {
	return !r.Outdated && r.NoQuota && (r.State == Waiting || r.State == Partial)
}

// Group is the desired state of all replicas of the component.
type Group struct {
	// Replicas is the desired number.
	Replicas int
	// MaxUnavailable and MaxSurge limit an update, as numbers of replicas.
	MaxUnavailable, MaxSurge int
	// Recreate: an update stops all outdated replicas before it creates new ones.
	Recreate bool
	// Step limits the update of a component whose workers change to a new generation together with other components. nil: the component is
	// updated independently.
	Step *Step
	// Stopped: all outdated replicas are removed, and no replica is created, regardless of availability.
	Stopped bool
	// Leaving are the replicas that have to leave their nodes; see move. MovesInPlace: these replicas are removed before their successors
	// are created.
	Leaving      []Leave
	MovesInPlace bool
}

// Leave is a replica that has to leave its nodes.
type Leave struct {
	Ordinal int
	// Overdue: the replica is removed without a successor, as far as MaxUnavailable allows.
	Overdue bool
}

// Removal is one replica to remove as a unit.
type Removal struct {
	Ordinal int
	Why     string
	// ScaleIn: the replica gets no successor. Repair: the replica is Broken.
	ScaleIn, Repair bool
}

// Plan is the next step.
type Plan struct {
	// Remove are the replicas to remove as a unit.
	Remove []Removal
	// Make are the ordinals of the replicas whose missing pods have to be created.
	Make []int
	// Blocked: the update cannot proceed until a replica finds capacity.
	Blocked bool
	// Waits explains to people what the component waits for; "" for nothing.
	Waits string
}

// OnlyScaleIn returns a plan with only those removals that scale the component in.
func (p Plan) OnlyScaleIn() Plan {
	p.Remove = slices.DeleteFunc(slices.Clone(p.Remove), func(r Removal) bool { return !r.ScaleIn })
	p.Make = nil
	return p
}

// OnlyRepair returns a plan with only the removals of broken replicas.
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
