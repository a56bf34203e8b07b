// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"maps"
	"reflect"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/trellis-k8s/trellis/internal/gang"
)

// Results holds the last scheduling result of every graph, for the graph reconciler. They live in memory only, and are decided again after a
// restart.
type Results struct {
	mu     sync.Mutex
	byName map[types.NamespacedName]gang.Result
	notify func(types.NamespacedName)
}

// NewResults returns an empty store; notify is called, outside any lock, when a graph's result has changed.
func NewResults(notify func(types.NamespacedName)) *Results {
	return &Results{byName: map[types.NamespacedName]gang.Result{}, notify: notify}
}

// Get returns the last result about the graph with this UID; ok is false while it has not been looked at since the operator started.
func (r *Results) Get(name types.NamespacedName, uid types.UID) (result gang.Result, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	result, ok = r.byName[name]
	return result, ok && result.UID == uid
}

// set keeps a result and returns whether it says something new.
func (r *Results) set(name types.NamespacedName, result gang.Result) bool {
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

// all returns the last scheduling result about every graph.
func (r *Results) all() map[types.NamespacedName]gang.Result {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.byName)
}
