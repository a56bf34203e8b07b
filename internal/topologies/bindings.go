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

// bindings are the Bindings of the cluster, while it serves them.
type bindings struct {
	// live asks whether they are served, and open opens a cache of them.
	live client.Reader
	open func() (cache.Cache, error)
	// every is how often the cluster is asked.
	every time.Duration
	// looked is closed after the first look.
	looked chan struct{}
	// running is what follows them; nil while they are not served. Only follow reads and writes it.
	running *running

	// mu guards the rest. No handler is called under it: handlers read the cache and add handlers.
	mu       sync.Mutex
	known    map[string]entry
	handlers map[toolscache.ResourceEventHandlerRegistration]toolscache.ResourceEventHandler
}

// entry is a Binding that Trellis did not write. With a problem only the metadata of topology holds.
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
				DefaultTransform: o.DefaultTransform})
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

// addTo adds to a list of all ClusterTopologies the Bindings of other names, in the order of their names.
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
	case ct == nil: // Trellis wrote it
		b.change(binding.Name, nil)
	default:
		b.change(binding.Name, &entry{topology: ct})
	}
}

// change takes in what a Binding is now, nil for none, and passes it on.
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

// clear takes all Bindings as deleted.
func (b *bindings) clear() {
	b.mu.Lock()
	names := slices.Sorted(maps.Keys(b.known))
	b.mu.Unlock()
	for _, name := range names {
		b.change(name, nil)
	}
}
