// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/test/testutil/patience"
)

// fake is a provider whose API comes and goes.
type fake struct {
	Placer
	mu    sync.Mutex
	state State
	err   error
	asked int
	kinds []Watch
}

func (f *fake) Name() string                                    { return "Fake" }
func (f *fake) Unsuited([]*trellisv1alpha1.ScalingGroup) string { return "" }

func (f *fake) Watches() []Watch {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.kinds
}

func (f *fake) also(object client.Object) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.kinds = append(f.kinds[:len(f.kinds):len(f.kinds)], Watch{Object: object, Graph: f.kinds[0].Graph})
}

func (f *fake) Probe(context.Context) (State, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked++
	return f.state, f.err
}

func (f *fake) set(state State, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.state, f.err = state, err
}

var gone = State{Reason: "APINotServed", Message: "not served"}

// running is a started set of providers with one fake provider, a clock that stands still, and a record of what was reported and opened.
type running struct {
	*Registry
	fake     *fake
	clock    *testingclock.FakeClock
	reported chan string
	mu       sync.Mutex
	open     int
}

func start(t *testing.T, f *fake) *running {
	t.Helper()
	r := &running{fake: f, clock: testingclock.NewFakeClock(time.Unix(0, 0)), reported: make(chan string, 16)}
	r.Registry = New(Options{Clock: r.clock, Open: r.opener}, All{Placers: []Placer{f}})
	r.OnState(func(name string) { r.reported <- name })
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = r.Start(ctx)
	}()
	t.Cleanup(func() { cancel(); <-ended })
	return r
}

// counted counts the caches that run.
type counted struct {
	*informertest.FakeInformers
	r *running
}

func (c counted) Start(ctx context.Context) error {
	c.r.count(1)
	<-ctx.Done()
	c.r.count(-1)
	return nil
}

func (r *running) opener([]Watch) (cache.Cache, error) {
	return counted{&informertest.FakeInformers{}, r}, nil
}

func (r *running) count(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open += n
}

func (r *running) opened() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.open
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	deadline := time.NewTimer(patience.Limit())
	defer deadline.Stop()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-deadline.C:
			t.Fatalf("never: %s", what)
		case <-tick.C:
		}
	}
}

func TestAnProviderComesAndGoes(t *testing.T) {
	f := &fake{state: gone, kinds: []Watch{{Object: &corev1.Pod{}, Graph: func(client.Object) (types.NamespacedName, bool) { return types.NamespacedName{}, false }}}}
	r := start(t, f)

	t.Log("the first to ask gets the answer, and nothing is watched that is not served")
	if got := r.State(t.Context(), "Fake"); got != gone {
		t.Fatalf("state %+v", got)
	}
	eventually(t, "it waits for its next look", r.clock.HasWaiters)
	if r.opened() != 0 || r.Own("Fake") != nil {
		t.Error("kinds are watched that are not served")
	}

	t.Log("the API is switched on: it is found at the next look, reported, and watched")
	f.set(Ready(), nil)
	r.clock.Step(DefaultLookEvery)
	if name := <-r.reported; name != "Fake" || !r.State(t.Context(), "Fake").Ready {
		t.Errorf("%s is reported", name)
	}
	<-r.reported // that they can be read
	if r.Own("Fake") == nil {
		t.Error("reported before its kinds can be read")
	}
	eventually(t, "its kinds are watched", func() bool { return r.opened() == 1 })

	t.Log("another of its kinds is served from now on: it is watched too, and that is reported")
	f.also(&corev1.Node{})
	r.Suspect()
	<-r.reported
	eventually(t, "one cache reads both", func() bool { return r.opened() == 1 && r.Own("Fake") != nil })

	t.Log("the API server cannot be asked: what was known holds")
	f.set(State{}, errors.New("connection refused"))
	asked := f.count()
	r.Suspect()
	eventually(t, "it was asked", func() bool { return f.count() > asked })
	if !r.State(t.Context(), "Fake").Ready || r.opened() != 1 {
		t.Error("an API server that does not answer counts as an API that is gone")
	}

	t.Log("the API is switched off: reported, and no longer watched")
	f.set(gone, nil)
	r.Suspect()
	<-r.reported
	eventually(t, "its kinds are left alone", func() bool { return r.opened() == 0 && r.Own("Fake") == nil })
	if got := r.State(t.Context(), "Fake"); got != gone {
		t.Errorf("state %+v", got)
	}
}

func (f *fake) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked
}

func TestChangesNameTheGraph(t *testing.T) {
	e := New(Options{}, All{Placers: []Placer{&fake{}}})
	changes := e.Changes()
	for _, report := range []func(){
		func() { e.subscribers[0]("Fake") },
		func() { e.changed(types.NamespacedName{Namespace: "ns", Name: "g"}) },
		func() { e.changed(types.NamespacedName{Name: "topology"}) }, // of no graph
		func() { e.changed(types.NamespacedName{Namespace: "ns", Name: "h"}) },
	} {
		report()
	}
	if _, one := GraphOf((<-changes).Object); one {
		t.Error("the state of a provider concerns one graph only")
	}
	for _, want := range []string{"g", "h"} {
		if name, one := GraphOf((<-changes).Object); !one || name != (types.NamespacedName{Namespace: "ns", Name: want}) {
			t.Errorf("an object of %s concerns %s", want, name)
		}
	}
}

// TestTopologyObjectsHaveNoGraph: the scheduler would read a deployment without a namespace, and with --watch-namespaces would try again for ever.
func TestTopologyObjectsHaveNoGraph(t *testing.T) {
	e := New(Options{}, All{Placers: []Placer{&fake{}}})
	var graphs []types.NamespacedName
	topologies := 0
	e.OnChange(func(graph types.NamespacedName) { graphs = append(graphs, graph) })
	e.OnTopologyChange(func() { topologies++ })
	handler := e.handler(Watch{Graph: func(o client.Object) (types.NamespacedName, bool) { return client.ObjectKeyFromObject(o), true }})
	handler.OnAdd(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "topology"}}, false)
	handler.OnAdd(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "g"}}, false)
	if want := []types.NamespacedName{{Namespace: "ns", Name: "g"}}; !slices.Equal(graphs, want) || topologies != 1 {
		t.Errorf("graphs %v, want %v; %d topology objects, want 1", graphs, want, topologies)
	}
}

func TestUnknownProvider(t *testing.T) {
	e := New(Options{}, All{})
	if got := e.State(t.Context(), "KAI"); got.Ready || got.Reason != "ProviderUnsupported" {
		t.Errorf("%+v", got)
	}
	if e.Placer("KAI") != nil || e.Workload("KAI") != nil || e.Get("KAI") != nil {
		t.Error("a provider that is not there was found")
	}
}

// A first look that fails is no answer either way: nothing is made until there is one.
func TestFirstLookFails(t *testing.T) {
	f := &fake{err: errors.New("connection refused")}
	e := New(Options{}, All{Placers: []Placer{f}})
	if got := e.State(t.Context(), "Fake"); got.Ready || got.Reason != "ProviderNotChecked" {
		t.Errorf("%+v", got)
	}
}
