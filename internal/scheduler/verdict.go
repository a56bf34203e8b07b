// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"reflect"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// CodeTakenBack means that the replica was released, could not be bound, and was taken back.
const CodeTakenBack = "TakenBack"

// CodeCreating means that not all pods of the gang are made yet.
const CodeCreating = "Creating"

const beingCreated = "its pods are being created"

// Waiting is one replica that is not placed yet, and why.
type Waiting struct {
	Service string
	Ordinal int
	// Code is a reason constant, Message a sentence for the user.
	Code, Message string
}

// Verdict is what the scheduler last decided about a graph. It lives in memory only and is made anew after a restart.
type Verdict struct {
	// UID of the DynamoGraphDeployment it is about.
	UID types.UID
	// Creating: scaling groups or pods of the graph are still to be made, so that the counts are not final.
	Creating bool
	// Wanted and Placed count the replicas that the engine places.
	Wanted, Placed int
	// Domain is the graph domain; empty without one.
	Domain topology.Path
	// Score of the last placement, 0..1; negative when nothing was placed since the operator started.
	Score float64
	// Waiting replicas, in service and ordinal order.
	Waiting []Waiting
	// Surplus replicas without room: an update would like them, beyond what is wanted for good.
	Surplus []Waiting

	// preemptsBelow: bound pods of a lower priority would make room.
	preemptsBelow int32
	// unmet is what the refused gangs ask for; nil when a change of any node may matter.
	unmet *placement.Unmet
}

// Verdicts hands decisions to the graph reconciler.
type Verdicts struct {
	mu     sync.Mutex
	byName map[types.NamespacedName]Verdict
	notify func(types.NamespacedName)
}

// NewVerdicts returns an empty store; notify is called, outside any lock, when a verdict has changed.
func NewVerdicts(notify func(types.NamespacedName)) *Verdicts {
	return &Verdicts{byName: map[types.NamespacedName]Verdict{}, notify: notify}
}

// Get returns the last verdict about the graph with this UID; ok is false while it has not been looked at since the operator started.
func (v *Verdicts) Get(name types.NamespacedName, uid types.UID) (verdict Verdict, ok bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	verdict, ok = v.byName[name]
	return verdict, ok && verdict.UID == uid
}

// set keeps a verdict and returns whether it says something new.
func (v *Verdicts) set(name types.NamespacedName, verdict Verdict) bool {
	v.mu.Lock()
	old, had := v.byName[name]
	if verdict.Score < 0 && had && old.UID == verdict.UID {
		verdict.Score = old.Score
	}
	changed := !had || !reflect.DeepEqual(old, verdict)
	v.byName[name] = verdict
	v.mu.Unlock()
	if changed {
		v.notify(name)
	}
	return changed
}

func (v *Verdicts) drop(name types.NamespacedName) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.byName, name)
}
