// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package topologies

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/topologybinding"
)

// bindings contains the Bindings of the cluster, while the cluster serves this kind.
type bindings struct {
	// live reads past the cache, to check whether the cluster serves Bindings. open opens a cache of Bindings.
	live client.Reader
	open func() (cache.Cache, error)
	// every is the interval at which live makes this check.
	every time.Duration
	// looked is closed after the API server has first answered whether it serves Bindings, or after syncTimeout.
	looked chan struct{}
	// running is the running cache of Bindings; nil while Bindings are not served. Only follow reads and writes this field.
	running *running

	// mu guards the fields below. Handlers are called without the lock, because they read the cache and add handlers.
	mu       sync.Mutex
	known    map[string]entry
	handlers map[toolscache.ResourceEventHandlerRegistration]toolscache.ResourceEventHandler
}

// entry is a Binding that Trellis did not write. If there is a problem, only the metadata of topology is valid.
type entry struct {
	topology *grovev1alpha1.ClusterTopology
	problem  string
}

func newBindings(config *rest.Config, o cache.Options, every time.Duration) (*bindings, error) {
	live, err := client.New(config, client.Options{HTTPClient: o.HTTPClient, Scheme: o.Scheme, Mapper: o.Mapper})
	if err != nil {
		return nil, err
	}
	return &bindings{
		live: live, every: every,
		open: func() (cache.Cache, error) {
			return cache.New(config, cache.Options{HTTPClient: o.HTTPClient, Scheme: o.Scheme, Mapper: o.Mapper,
				DefaultTransform: o.DefaultTransform, DefaultWatchErrorHandler: o.DefaultWatchErrorHandler})
		},
		looked: make(chan struct{}), known: map[string]entry{},
		handlers: map[toolscache.ResourceEventHandlerRegistration]toolscache.ResourceEventHandler{},
	}, nil
}

func (b *bindings) get(name string) (entry, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	known, is := b.known[name]
	return known, is
}

// addTo adds the usable Bindings, sorted by name, to a list of all ClusterTopologies. It omits Bindings with the name of a ClusterTopology.
func (b *bindings) addTo(list *grovev1alpha1.ClusterTopologyList) {
	b.mu.Lock()
	defer b.mu.Unlock()
	taken := map[string]bool{}
	for i := range list.Items {
		taken[list.Items[i].Name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(b.known)) {
		if known := b.known[name]; !taken[name] && known.problem == "" {
			list.Items = append(list.Items, *known.topology.DeepCopy())
		}
	}
}

func (b *bindings) addHandler(of toolscache.ResourceEventHandlerRegistration, h toolscache.ResourceEventHandler) {
	b.mu.Lock()
	b.handlers[of] = h
	known := slices.SortedFunc(maps.Values(b.known), func(a, b entry) int { return cmp.Compare(a.topology.Name, b.topology.Name) })
	b.mu.Unlock()
	for _, one := range known {
		h.OnAdd(one.topology, true)
	}
}

func (b *bindings) removeHandler(of toolscache.ResourceEventHandlerRegistration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.handlers, of)
}

// OnAdd implements toolscache.ResourceEventHandler.
func (b *bindings) OnAdd(object any, _ bool) { b.set(object.(*topologybinding.Binding)) }

// OnUpdate implements toolscache.ResourceEventHandler.
func (b *bindings) OnUpdate(_, object any) { b.set(object.(*topologybinding.Binding)) }

// OnDelete implements toolscache.ResourceEventHandler.
func (b *bindings) OnDelete(object any) {
	if tombstone, is := object.(toolscache.DeletedFinalStateUnknown); is {
		object = tombstone.Obj
	}
	if binding, is := object.(*topologybinding.Binding); is {
		b.change(binding.Name, nil)
	}
}

func (b *bindings) set(binding *topologybinding.Binding) {
	ct, err := topologybinding.Read(binding)
	switch {
	case err != nil:
		ct = &grovev1alpha1.ClusterTopology{ObjectMeta: *binding.ObjectMeta.DeepCopy()}
		ct.SetGroupVersionKind(topologybinding.Kind)
		b.change(binding.Name, &entry{ct, err.Error()})
	case ct == nil: // Trellis wrote the Binding
		b.change(binding.Name, nil)
	default:
		b.change(binding.Name, &entry{topology: ct})
	}
}

// change records the current state of a Binding, nil for none, and notifies the handlers.
func (b *bindings) change(name string, now *entry) {
	b.mu.Lock()
	before, known := b.known[name]
	if now != nil {
		b.known[name] = *now
	} else {
		delete(b.known, name)
	}
	handlers := slices.Collect(maps.Values(b.handlers))
	b.mu.Unlock()
	for _, h := range handlers {
		switch {
		case now != nil && known:
			h.OnUpdate(before.topology, now.topology)
		case now != nil:
			h.OnAdd(now.topology, false)
		case known:
			h.OnDelete(before.topology)
		}
	}
}

// clear removes all Bindings, as if they were deleted.
func (b *bindings) clear() {
	b.mu.Lock()
	names := slices.Sorted(maps.Keys(b.known))
	b.mu.Unlock()
	for _, name := range names {
		b.change(name, nil)
	}
}
