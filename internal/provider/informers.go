// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// Opener creates a cache for a provider's kinds. The caller starts and stops the cache.
type Opener func(watches []Watch) (cache.Cache, error)

// syncTimeout is the maximum time for the first list of a provider's kinds.
const syncTimeout = 30 * time.Second

// informers watch one provider's kinds while the cluster serves them. They have a separate cache, because a cache that watches a missing
// kind fails, and this must not affect the manager's cache.
type informers struct {
	reader client.Reader
	// kinds describes the watched kinds; see kindsOf.
	kinds  string
	cancel context.CancelFunc
	ended  sync.WaitGroup
}

// watch starts the informers of a ready provider, and stops them when the provider is no longer ready or its kinds have changed. When
// informers have started, watch calls the state subscribers, because earlier reconciles could not read the kinds. Only Start calls watch.
func (e *Registry) watch(ctx context.Context, name string, state State) {
	e.mu.Lock()
	running := e.informers[name]
	e.mu.Unlock()
	if running != nil && (!state.Ready || running.kinds != kindsOf(e.byName[name].Watches())) {
		e.set(name, nil)
		running.stop()
		running = nil
	}
	if !state.Ready || running != nil {
		return
	}
	started, err := e.open(ctx, e.byName[name])
	if err != nil {
		log.FromContext(ctx).Error(err, "watching the provider's kinds; it is tried again", "provider", name)
		return
	}
	if started != nil {
		e.set(name, started)
		e.notify(name)
	}
}

func kindsOf(watches []Watch) string {
	var kinds strings.Builder
	for _, w := range watches {
		fmt.Fprintf(&kinds, "%T %s\n", w.Object, w.Object.GetObjectKind().GroupVersionKind())
	}
	return kinds.String()
}

func (e *Registry) set(name string, running *informers) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if running == nil {
		delete(e.informers, name)
		return
	}
	e.informers[name] = running
}

func (e *Registry) open(ctx context.Context, one Provider) (*informers, error) {
	watches := one.Watches()
	if len(watches) == 0 || e.options.Open == nil {
		return nil, nil
	}
	own, err := e.options.Open(watches)
	if err != nil {
		return nil, err
	}
	for _, w := range watches {
		informer, err := own.GetInformer(ctx, w.Object, cache.BlockUntilSynced(false))
		if err != nil {
			return nil, fmt.Errorf("watching %T: %w", w.Object, err)
		}
		if _, err := informer.AddEventHandler(e.handler(w)); err != nil {
			return nil, fmt.Errorf("watching %T: %w", w.Object, err)
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	running := &informers{reader: own, kinds: kindsOf(watches), cancel: cancel}
	running.ended.Go(func() {
		if err := own.Start(ctx); err != nil {
			log.FromContext(ctx).Error(err, "watching the provider's kinds", "provider", one.Name())
		}
	})
	// A kind may disappear during its first list. The next check by the registry tries again.
	first, enough := context.WithTimeout(ctx, syncTimeout)
	defer enough()
	if !own.WaitForCacheSync(first) {
		running.stop()
		return nil, fmt.Errorf("the first list of %s's kinds was not received", one.Name())
	}
	return running, nil
}

func (i *informers) stop() {
	i.cancel()
	i.ended.Wait()
}

func (e *Registry) closeAll() {
	for _, name := range e.asked() {
		e.mu.Lock()
		running := e.informers[name]
		delete(e.informers, name)
		e.mu.Unlock()
		if running != nil {
			running.stop()
		}
	}
}

func (e *Registry) handler(w Watch) toolscache.ResourceEventHandler {
	notify := func(obj any) {
		if tombstone, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
			obj = tombstone.Obj
		}
		object, ok := obj.(client.Object)
		if !ok {
			return
		}
		if graph, ok := w.Graph(object); ok {
			e.changed(graph)
		}
	}
	return toolscache.ResourceEventHandlerFuncs{AddFunc: notify, UpdateFunc: func(_, now any) { notify(now) }, DeleteFunc: notify}
}

// changed calls the functions that OnChange has registered. For a graph without a namespace, which TopologyOf returns, it calls the
// functions that OnTopologyChange has registered instead.
func (e *Registry) changed(graph types.NamespacedName) {
	if graph.Namespace == "" {
		for _, f := range e.topologyWatchers {
			f()
		}
		return
	}
	for _, f := range e.watchers {
		f(graph)
	}
}
