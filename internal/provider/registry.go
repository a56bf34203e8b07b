// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
)

// DefaultLookEvery is the interval at which the registry checks the APIs of providers in use. The API server sends no event when an API is
// enabled or disabled.
const DefaultLookEvery = 10 * time.Second

// Options of a Registry; the zero value is the default.
type Options struct {
	LookEvery time.Duration
	Clock     clock.Clock
	// Open creates the cache for a provider's kinds; nil: the kinds are not watched.
	Open Opener
}

// All holds all providers, grouped by role. Each provider has a unique name.
type All struct {
	// Placers place pods, including the pods that a Maker makes.
	Placers []Placer
	// Makers make the pods of multinode replicas. A Placer places them.
	Makers []Maker
	// Workloads make and place the pods of whole graphs.
	Workloads []Workload
	// Others are systems that graphs use in addition to their provider.
	Others []Provider
}

// Registry holds all providers, and their states in this cluster.
type Registry struct {
	placers   map[string]Placer
	makers    map[string]Maker
	workloads map[string]Workload
	// byName holds the providers of all roles.
	byName  map[string]Provider
	options Options
	// again triggers a check of the providers before the interval has passed.
	again chan struct{}

	mu     sync.Mutex
	states map[string]State
	// subscribers are called when the state of a provider changes or its kinds become readable. watchers are called when an object of a
	// graph changes, topologyWatchers when a topology object changes.
	subscribers      []func(provider string)
	watchers         []func(graph types.NamespacedName)
	topologyWatchers []func()
	informers        map[string]*informers
}

// New returns a registry of the given providers.
func New(o Options, all All) *Registry {
	o.LookEvery = cmp.Or(o.LookEvery, DefaultLookEvery)
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	e := &Registry{
		byName: map[string]Provider{}, options: o, again: make(chan struct{}, 1), states: map[string]State{}, informers: map[string]*informers{},
	}
	e.placers, e.makers, e.workloads = register(e, all.Placers), register(e, all.Makers), register(e, all.Workloads)
	register(e, all.Others)
	return e
}

// register adds providers of one role, and returns them by name.
func register[P Provider](e *Registry, some []P) map[string]P {
	named := make(map[string]P, len(some))
	for _, one := range some {
		named[one.Name()], e.byName[one.Name()] = one, one
	}
	return named
}

// Names returns the names of all providers, sorted.
func (e *Registry) Names() []string { return slices.Sorted(maps.Keys(e.byName)) }

// OnState registers a function that is called with a provider's name when the provider's state has changed or its kinds have become
// readable. The registry holds no lock during the call. Call OnState before Start.
func (e *Registry) OnState(f func(provider string)) { e.subscribers = append(e.subscribers, f) }

// OnChange registers a function that is called with the graph of each changed object of a provider's kinds. Call OnChange before Start.
func (e *Registry) OnChange(f func(graph types.NamespacedName)) { e.watchers = append(e.watchers, f) }

// OnTopologyChange registers a function that is called when a cluster-scoped topology object of a provider changes. Call OnTopologyChange
// before Start.
func (e *Registry) OnTopologyChange(f func()) { e.topologyWatchers = append(e.topologyWatchers, f) }

// changesBuffered is the buffer size of a Changes channel. The buffer holds events while the channel's controller is busy.
const changesBuffered = 4096

// Changes returns a channel for a controller to watch. The channel delivers an event for every change that [Registry.OnState] and
// [Registry.OnChange] report. Use [GraphOf] to read the event. Call Changes before Start.
func (e *Registry) Changes() <-chan event.GenericEvent {
	changes := make(chan event.GenericEvent, changesBuffered)
	deliver := func(graph types.NamespacedName) {
		changes <- event.GenericEvent{Object: &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: graph.Namespace,
			Name: graph.Name}}}
	}
	e.OnState(func(string) { deliver(types.NamespacedName{}) })
	e.OnChange(deliver)
	return changes
}

// GraphOf returns the deployment that a change affects. It returns false for a change of a provider's state, which affects all deployments.
func GraphOf(change client.Object) (graph types.NamespacedName, one bool) {
	return client.ObjectKeyFromObject(change), change.GetName() != ""
}

// Placer returns the placer of that name, or nil.
func (e *Registry) Placer(name string) Placer { return e.placers[name] }

// Forget makes all placers drop the state of a deleted graph.
func (e *Registry) Forget(graph types.NamespacedName) {
	for _, one := range e.placers {
		if f, ok := one.(Forgetter); ok {
			f.Forget(graph)
		}
	}
}

// Workload returns the workload of that name, or nil.
func (e *Registry) Workload(name string) Workload { return e.workloads[name] }

// Maker returns the maker of that name, or nil.
func (e *Registry) Maker(name string) Maker { return e.makers[name] }

// Get returns the provider of that name, or nil.
func (e *Registry) Get(name string) Provider { return e.byName[name] }

// State returns the state of a provider. The first call probes the provider. From then on, the registry keeps the state up to date.
func (e *Registry) State(ctx context.Context, name string) State {
	e.mu.Lock()
	state, known := e.states[name]
	e.mu.Unlock()
	if known {
		return state
	}
	return e.look(ctx, name)
}

// Suspect triggers a check of the providers immediately, without waiting for the interval. Callers use it when the API server did not keep
// a written object.
func (e *Registry) Suspect() {
	select {
	case e.again <- struct{}{}:
	default:
	}
}

// Own returns a reader that reads the provider's kinds from the cache; nil while the kinds are not watched.
func (e *Registry) Own(name string) client.Reader {
	e.mu.Lock()
	defer e.mu.Unlock()
	if running := e.informers[name]; running != nil {
		return running.reader
	}
	return nil
}

// NeedLeaderElection returns true, because only the leader writes.
func (e *Registry) NeedLeaderElection() bool { return true }

// Start keeps the states of the providers in use up to date until ctx ends. A provider is in use once State has been called for it.
func (e *Registry) Start(ctx context.Context) error {
	ctx = log.IntoContext(ctx, log.FromContext(ctx).WithName("providers"))
	defer e.closeAll()
	for {
		for _, name := range e.asked() {
			e.watch(ctx, name, e.look(ctx, name))
		}
		timer := e.options.Clock.NewTimer(e.options.LookEvery)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-e.again:
		case <-timer.C():
		}
		timer.Stop()
	}
}

func (e *Registry) asked() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	names := make([]string, 0, len(e.states))
	for name := range e.states {
		names = append(names, name)
	}
	return names
}

// look probes one provider and reports a change of its state.
func (e *Registry) look(ctx context.Context, name string) State {
	now, err := e.probe(ctx, name)
	e.mu.Lock()
	before, known := e.states[name]
	if err != nil && known {
		now = before
	}
	e.states[name] = now
	e.mu.Unlock()
	if err != nil {
		log.FromContext(ctx).Error(err, "asking the cluster what it serves", "provider", name)
	}
	if !known {
		e.Suspect() // makes the loop watch its kinds
	}
	if known && before != now {
		log.FromContext(ctx).Info("provider", "provider", name, "ready", now.Ready, "reason", now.Reason, "message", now.Message)
		e.notify(name)
	}
	return now
}

func (e *Registry) notify(name string) {
	for _, f := range e.subscribers {
		f(name)
	}
}

func (e *Registry) probe(ctx context.Context, name string) (State, error) {
	one := e.byName[name]
	if one == nil {
		return State{Reason: nvidiav1beta1.ReasonProviderUnsupported, Message: fmt.Sprintf("this version of Trellis has no provider %q", name)},
			nil
	}
	state, err := one.Probe(ctx)
	if err != nil {
		return State{Reason: nvidiav1beta1.ReasonProviderNotChecked, Message: "the cluster could not be asked what it serves: " + err.Error()},
			err
	}
	return state, nil
}
