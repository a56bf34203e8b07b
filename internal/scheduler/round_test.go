// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/internal/provider"
	gates "github.com/trellis-k8s/trellis/internal/provider/gates/placer"
)

// asks adds graphs of a namespace to those that wait, each of one pod; the lower its number, the older a graph is.
func (b *bench) asks(all graphs, namespace string, from, count int, priority int32) {
	for i := range count {
		o := asking(from+i, 1, priority)
		o.DGD.Namespace = namespace
		for _, sg := range o.Groups {
			sg.Namespace = namespace
		}
		for _, pod := range o.Pods {
			pod.Namespace = namespace
		}
		all[o.DGD.Name] = o
		b.s.queue.add(client.ObjectKeyFromObject(o.DGD))
	}
}

// full is a cluster without free capacity, and the graphs that wait there. What takes the capacity has the priority 0.
func full(t testing.TB) (*bench, graphs) {
	b := newBench(t, Options{})
	all := graphs{}
	b.s.objects.reader = all
	b.taken("a0", "a1", "b0", "b1")
	return b, all
}

// plansBefore counts the plans made before the graph is planned.
func (b *bench) plansBefore(name string, rounds func()) int {
	before, at := plans(b.t), -1
	b.s.results.notify = func(n client.ObjectKey) {
		if n.Name == name && at < 0 {
			at = plans(b.t) - before - 1
		}
	}
	rounds()
	if at < 0 {
		b.t.Fatalf("%s was not planned", name)
	}
	return at
}

func (b *bench) oneRound() {
	due, _ := b.s.queue.take(b.clock.Now())
	b.s.round(b.t.Context(), due)
}

// The first graph of a namespace is planned second, whatever another namespace has waiting before it, and, when it comes later, in the next round.
// One of a higher priority comes before both.
func TestNamespacesTakeTurns(t *testing.T) {
	b, all := full(t)
	b.asks(all, "a", 1, 200, -9)
	b.asks(all, "b", 500, 3, -9)
	if got := b.plansBefore("g500", b.oneRound); got != 1 {
		t.Errorf("%d plans were made before the first of namespace b, want 1", got)
	}
	b.asks(all, "c", 600, 1, -9)
	b.asks(all, "a", 700, 1, 0)
	if got := b.plansBefore("g600", b.oneRound); got > 2 {
		t.Errorf("%d plans were made before the first of namespace c, want 2 at most", got)
	}
	if got := b.look(); got != 200+3+1+1-2*roundGraphs {
		t.Errorf("%d plans after two rounds; each graph is to be planned once", got)
	}
}

func TestPriorityBeforeTurns(t *testing.T) {
	b, all := full(t)
	b.asks(all, "a", 1, 50, -5)
	b.asks(all, "b", 500, 1, -9)
	b.asks(all, "c", 600, 1, -5)
	if got := b.plansBefore("g500", func() { b.look() }); got != 51 {
		t.Errorf("%d plans before the graph of low priority, want 51", got)
	}
	b.asks(all, "a", 1, 40, -9)
	b.oneRound()
	b.asks(all, "c", 800, 1, 0)
	if got := b.plansBefore("g800", b.oneRound); got != 0 {
		t.Errorf("%d plans before the graph of the highest priority, want 0", got)
	}
}

// A graph whose pods do not exist yet, because it asks for their places, has their priority.
func TestPriorityOfPodsThatAreNotMade(t *testing.T) {
	w := newCreating(t)
	older, other := asking(1, 1, 0), planned(2, 1)
	w.s.objects.reader = graphs{older.DGD.Name: older, other.DGD.Name: other}
	w.taken("a0", "a1", "b0", "b1")
	w.asks.Ask(other.Groups[0], wantsOf(other.Groups[0], 1, 5), nil)
	w.s.queue.add(client.ObjectKeyFromObject(older.DGD))
	w.s.queue.add(client.ObjectKeyFromObject(other.DGD))
	if got := w.plansBefore(other.DGD.Name, w.oneRound); got != 0 {
		t.Errorf("%d plans before the graph of the higher priority, want 0", got)
	}
}

// A graph that becomes due while it is in line is planned once, for all causes.
func TestOncePerLine(t *testing.T) {
	b, all := full(t)
	b.asks(all, "a", 1, 2*roundGraphs, -9)
	b.oneRound()
	last := all[fmt.Sprintf("g%d", 2*roundGraphs)]
	for range 3 {
		b.s.queue.add(client.ObjectKeyFromObject(last.DGD))
	}
	if got := b.look(); got != roundGraphs {
		t.Errorf("%d plans, want %d", got, roundGraphs)
	}
	if len(b.s.queue.taken) != 0 {
		t.Errorf("%d causes are kept of graphs that are not in line", len(b.s.queue.taken))
	}
	delete(all, last.DGD.Name)
	b.s.queue.add(client.ObjectKeyFromObject(last.DGD))
	if got := b.look(); got != 0 || len(b.s.queue.taken) != 0 {
		t.Errorf("%d plans of a graph that is gone", got)
	}
}

// forgetting is a provider that remembers graphs.
type forgetting struct {
	gates.Placer
	gone []types.NamespacedName
}

func (f *forgetting) Forget(graph types.NamespacedName) { f.gone = append(f.gone, graph) }

// A graph that is gone is forgotten by the providers too.
func TestProvidersForgetAGraphThatIsGone(t *testing.T) {
	b, placer := newBench(t, Options{}), &forgetting{}
	b.s.objects.reader, b.s.providers = graphs{}, provider.New(provider.Options{}, provider.All{Placers: []provider.Placer{placer}})
	b.s.queue.add(named("g"))
	if b.look(); len(placer.gone) == 0 || placer.gone[0] != named("g") {
		t.Errorf("forgotten are %v", placer.gone)
	}
}

// BenchmarkFirstOfAnotherTenant measures how long the first graph of a tenant waits while a thousand of another one are planned again: in plans
// that are made before its own, and in time.
//
//	go test ./internal/scheduler -run '^$' -bench FirstOfAnotherTenant
func BenchmarkFirstOfAnotherTenant(b *testing.B) {
	w, all := full(b)
	total := 0
	for i := range b.N {
		b.StopTimer()
		clear(all)
		w.asks(all, "a", 1, 1000, -9)
		w.oneRound() // the thousand are in line
		w.asks(all, "b", 5000+i, 1, -9)
		b.StartTimer()
		total += w.plansBefore(fmt.Sprintf("g%d", 5000+i), func() { w.oneRound(); b.StopTimer(); w.look(); b.StartTimer() })
	}
	b.ReportMetric(float64(total)/float64(b.N), "plans-before")
}
