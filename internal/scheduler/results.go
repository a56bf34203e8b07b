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

// Results holds the last scheduling result of every graph, for the graph reconciler. The results are in memory only; after a restart the
// loop computes them again.
type Results struct {
	mu     sync.Mutex
	byName map[types.NamespacedName]gang.Result
	notify func(types.NamespacedName)
	// also are further functions to call on every change.
	also []func()
	// asked describes the capacity that is requested from autoscalers, by graph.
	asked map[types.NamespacedName]string
}

// NewResults returns an empty store; notify is called, outside any lock, when a graph's result has changed.
func NewResults(notify func(types.NamespacedName)) *Results {
	return &Results{byName: map[types.NamespacedName]gang.Result{}, asked: map[types.NamespacedName]string{}, notify: notify}
}

// Get returns the last result of the graph with this UID; ok is false while the graph has not been evaluated since the operator started.
func (r *Results) Get(name types.NamespacedName, uid types.UID) (result gang.Result, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	result, ok = r.byName[name]
	result.Asked = r.asked[name]
	return result, ok && result.UID == uid
}

// Ask sets the descriptions, by graph, of the capacity that is requested from autoscalers. For a graph without a description, no capacity
// is requested.
func (r *Results) Ask(asked map[types.NamespacedName]string) {
	r.mu.Lock()
	old := r.asked
	r.asked = asked
	r.mu.Unlock()
	for name, text := range asked {
		if old[name] != text {
			r.notify(name)
		}
	}
	for name := range old {
		if _, still := asked[name]; !still {
			r.notify(name)
		}
	}
}

// set stores a result and reports whether it differs from the last result.
func (r *Results) set(name types.NamespacedName, result gang.Result) bool {
	r.mu.Lock()
	old, had := r.byName[name]
	changed := !had || !reflect.DeepEqual(old, result)
	r.byName[name] = result
	r.mu.Unlock()
	if changed {
		r.notify(name)
		for _, tell := range r.also {
			tell()
		}
	}
	return changed
}

// OnChange registers f to be called, outside any lock, when the result of any graph has changed. Call it before the loop starts.
func (r *Results) OnChange(f func()) { r.also = append(r.also, f) }

func (r *Results) drop(name types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.byName, name)
}

// all returns the last scheduling result of every graph.
func (r *Results) all() map[types.NamespacedName]gang.Result {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.byName)
}
