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

// CodeRequeued means that the replica was released, could not be bound, and was requeued.
const CodeRequeued = "Requeued"

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

// Result is the scheduling result of a graph: what the scheduler last decided about it. It lives in memory only and is decided again after a restart.
type Result struct {
	// UID of the DynamoGraphDeployment it is about.
	UID types.UID
	// Creating: scaling groups or pods of the graph are still to be made, so that the counts are not final.
	Creating bool
	// Wanted and Placed count the replicas that the engine places.
	Wanted, Placed int
	// Domain is the graph domain; empty without one.
	Domain topology.Path
	// Score of all packed replicas that have their nodes, 0..1; [placement.Unscored] when none has. See [placement.Score].
	Score float64
	// Waiting replicas, in service and ordinal order.
	Waiting []Waiting
	// Surplus replicas without capacity: an update would like them, beyond what is wanted for good.
	Surplus []Waiting

	// preemptsBelow: bound pods of a lower priority would free capacity.
	preemptsBelow int32
	// unmet is what the refused gangs ask for; nil when a change of any node may matter.
	unmet *placement.Unmet
}

// Results holds the last scheduling result of every graph, for the graph reconciler.
type Results struct {
	mu     sync.Mutex
	byName map[types.NamespacedName]Result
	notify func(types.NamespacedName)
}

// NewResults returns an empty store; notify is called, outside any lock, when a graph's result has changed.
func NewResults(notify func(types.NamespacedName)) *Results {
	return &Results{byName: map[types.NamespacedName]Result{}, notify: notify}
}

// Get returns the last result about the graph with this UID; ok is false while it has not been looked at since the operator started.
func (r *Results) Get(name types.NamespacedName, uid types.UID) (result Result, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	result, ok = r.byName[name]
	return result, ok && result.UID == uid
}

// set keeps a result and returns whether it says something new.
func (r *Results) set(name types.NamespacedName, result Result) bool {
	r.mu.Lock()
	old, had := r.byName[name]
	changed := !had || !reflect.DeepEqual(old, result)
	r.byName[name] = result
	r.mu.Unlock()
	if changed {
		r.notify(name)
	}
	return changed
}

func (r *Results) drop(name types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.byName, name)
}
