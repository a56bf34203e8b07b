// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/assignment"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// recordedAs is a record with one line for each replica.
func recordedAs(r *assignment.Record) (lines []string) {
	if r == nil {
		return nil
	}
	add := func(list string, places map[assignment.Key]assignment.Place) {
		for key, p := range places {
			lines = append(lines, strings.TrimSpace(fmt.Sprintf("%s %s-%d: %d. in %s %s", list, key.Component, key.Ordinal, p.Attempt, p.Domain,
				strings.Join(p.Hosts, "+"))))
		}
	}
	for _, g := range r.Gangs {
		add(string(g.State), g.Places)
	}
	add("bound", r.Bound)
	add("former", r.Former)
	slices.Sort(lines)
	return lines
}

// What a plan places is recorded with its planned hosts, gated and in place, before anything is done.
func TestDecisionsAreRecorded(t *testing.T) {
	want := []string{"Assigned work-0: 1. in z/a a0+a1"}
	t.Run("gated", func(t *testing.T) {
		o := asking(2, 2, 0)
		o.Record = &assignment.Record{}
		if d := newBench(t, Options{}).decide(o); !slices.Equal(recordedAs(d.record), want) || len(d.releases) != 2 {
			t.Errorf("%d releases, record %q", len(d.releases), recordedAs(d.record))
		}
	})
	t.Run("in place", func(t *testing.T) {
		w, o := newCreating(t), planned(2, 2)
		o.Record = &assignment.Record{}
		w.ask(o.Groups...)
		if d := w.decide(o); !slices.Equal(recordedAs(d.record), want) || len(d.releases) != 2 {
			t.Errorf("%d releases, record %q", len(d.releases), recordedAs(d.record))
		}
	})
	t.Run("nothing placed", func(t *testing.T) {
		o := asking(2, 3, 0)
		o.Record = &assignment.Record{}
		if d := newBench(t, Options{}).decide(o); d.record != nil {
			t.Errorf("record %q", recordedAs(d.record))
		}
	})
}

// What becomes of released gangs is recorded when nothing of the graph waits any more, and at the latest after a second.
func TestWhatHappensIsCollected(t *testing.T) {
	b, o := newBench(t, Options{}), asking(2, 2, 0)
	o.Record = &assignment.Record{}
	o.Record = b.decide(o).record
	for _, pod := range o.Pods {
		opened(pod, slices.Collect(maps.Keys(o.Record.Gangs))[0], map[string]string{"z": "z", "r": "a"})
		b.s.ledger.podChanged(pod)
	}
	if d := b.decide(o); d.record != nil {
		t.Errorf("released and not bound: record %q", recordedAs(d.record))
	}
	for i, pod := range o.Pods {
		bound := pod.DeepCopy()
		bound.Spec.NodeName = fmt.Sprint("a", i)
		o.Pods[i] = bound
		b.s.ledger.podChanged(bound)
		want := []string{"bound work-0: 1. in z/a"}
		if i == 0 {
			want = nil
		}
		if diff := cmp.Diff(want, recordedAs(b.decide(o).record)); diff != "" {
			t.Errorf("%d pods are bound: record (-want +got):\n%s", i+1, diff)
		}
	}
	o.Record = b.decide(o).record
	o.Pods = nil
	if d := b.decide(o); d.record != nil {
		t.Errorf("its pods are gone: record %q", recordedAs(d.record))
	}
	b.clock.Step(recordAfter)
	if diff := cmp.Diff([]string{"former work-0: 1. in z/a"}, recordedAs(b.decide(o).record)); diff != "" {
		t.Errorf("a second after its pods have gone: record (-want +got):\n%s", diff)
	}
}

// recordStore gives a loop a store of GraphPlacements. Each write is counted, and fails while err is set.
type recordStore struct {
	client.Client
	err    error
	writes int
}

func newRecordStore(t testing.TB, b *bench) *recordStore {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{nvidiav1beta1.AddToScheme, trellisv1alpha1.AddToScheme, corev1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	r := &recordStore{}
	byName := func(o client.Object) []string { return []string{o.GetName()} } // as the API server serves it
	served := fake.NewClientBuilder().WithScheme(scheme).WithIndex(&trellisv1alpha1.GraphPlacement{}, "metadata.name", byName).Build()
	r.Client = interceptor.NewClient(served, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, opts ...client.CreateOption) error {
			if r.writes++; r.err != nil {
				return r.err
			}
			return c.Create(ctx, object, opts...)
		},
	})
	placements := newGraphPlacements(r.Client, r.Client, r.Client)
	b.s.placements, b.s.writers.placements = placements, placements
	return r
}

// Nothing is released that could not be recorded: its capacity is given back, the reason is reported, and it is tried again.
func TestNothingIsReleasedUnrecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _, o := newOpening(t)
		r := newRecordStore(t, b)
		r.err = errors.New("no GraphPlacements today")
		b.settle()
		if r.writes == 0 || o.Pods[0].Spec.NodeName != "" {
			t.Fatalf("%d writes, pod on node %q", r.writes, o.Pods[0].Spec.NodeName)
		}
		for _, pod := range o.Pods {
			if host, reserved := b.s.ledger.cluster.Reserved(topology.PodID(pod)); reserved {
				t.Errorf("host %s stays reserved for %s", host, pod.Name)
			}
		}
		for range 3 {
			b.clock.Step(time.Minute)
			b.settle()
		}
		result, _ := b.s.results.Get(clientKey(o), o.DGD.UID)
		if len(result.Waiting) == 0 || result.Waiting[0].Code != gang.CodeReleaseRefused || !strings.Contains(result.Waiting[0].Message, "no GraphPlacements today") {
			t.Errorf("waiting: %v", result.Waiting)
		}
		r.err = nil
		b.clock.Step(time.Minute)
		b.settle()
		object := &trellisv1alpha1.GraphPlacement{}
		if err := r.Get(t.Context(), clientKey(o), object); err != nil {
			t.Fatal(err)
		}
		if object.Spec.DeploymentUID != string(o.DGD.UID) || len(object.OwnerReferences) != 1 {
			t.Errorf("recorded: %+v", object)
		}
	})
}

// A gang that is evicted is recorded as such before its pods are deleted.
func TestEvictionsAreRecorded(t *testing.T) {
	b, o := newBench(t, Options{}), asking(2, 2, 0)
	r := newRecordStore(t, b)
	o.Record, b.s.objects.reader = &assignment.Record{}, graphs{"g2": o}
	for _, pod := range o.Pods {
		opened(pod, "g2-1", map[string]string{"z": "z", "r": "a"})
		b.s.ledger.podChanged(pod)
	}
	gangs := map[string]eviction{"g2-1": {reason: ReasonPlaceLost, why: "node a0 is gone"}}
	if !b.s.recordEviction(t.Context(), o, gangs, o.Pods) || r.writes != 1 {
		t.Fatalf("%d writes", r.writes)
	}
	object := &trellisv1alpha1.GraphPlacement{}
	if err := r.Get(t.Context(), clientKey(o), object); err != nil {
		t.Fatal(err)
	}
	got := object.Spec.Gangs[0]
	if got.Name != "g2-1" || got.State != trellisv1alpha1.GangEvicting || got.Message != "node a0 is gone" {
		t.Errorf("recorded: %+v", got)
	}
	if !b.s.recordEviction(t.Context(), o, gangs, o.Pods) || r.writes != 1 {
		t.Errorf("%d writes of one eviction", r.writes)
	}
}

// A gang for which the record has no space waits with the reason RecordFull.
func TestFullRecord(t *testing.T) {
	b, o := newBench(t, Options{}), asking(2, 1, 0)
	o.Record = (&assignment.Record{}).Clone()
	label := strings.Repeat("x", 60)
	for i := range 20_000 {
		o.Record.Bound[gang.Key{Component: "work", Ordinal: i + 100}] = assignment.Place{Attempt: 1, Domain: topology.Path{fmt.Sprint(label, i)}}
	}
	d := b.decide(o)
	if len(d.releases) > 0 || len(d.result.Waiting) != 1 || d.result.Waiting[0].Code != gang.CodeRecordFull {
		t.Fatalf("%d releases, waiting %v", len(d.releases), d.result.Waiting)
	}
	o.Record = &assignment.Record{}
	if d := b.decide(o); len(d.releases) != 1 {
		t.Errorf("with space: %d releases, waiting %v", len(d.releases), d.result.Waiting)
	}
}

// A new leader holds what was recorded and does not exist yet: nobody else gets it before its graph had its turn, and for no longer than the
// capacity of a lost pod.
func TestRecordedPlacesAreHeld(t *testing.T) {
	for title, tc := range map[string]struct {
		pods   int
		change func(*gang.Observation)
		want   string
	}{
		"no pod exists":                        {0, func(*gang.Observation) {}, "rack b"},
		"one of two exists and waits":          {1, func(*gang.Observation) {}, "rack b"},
		"it is not wanted any more":            {0, func(o *gang.Observation) { o.Groups[0].Spec.Replicas = 0 }, "rack a"},
		"the record says another domain":       {0, func(o *gang.Observation) { place(o, "b") }, "rack a"},
		"it is evicted":                        {0, func(o *gang.Observation) { o.Record.Evict(theGang, nil, "no", begin) }, "rack a"},
		"nothing is recorded":                  {0, func(o *gang.Observation) { o.Record = nil }, "rack a"},
		"the hosts have no space for its pods": {0, func(o *gang.Observation) { o.Groups[0].Spec.Roles[0].Template = tooLarge() }, "rack a"},
	} {
		t.Run(title, func(t *testing.T) {
			b, o := newBench(t, Options{}), planned(2, 2)
			o.Groups[0].Spec.Roles[0].Template.Spec = withGPU(&corev1.Pod{}).Spec
			o.Record = (&assignment.Record{}).Clone()
			place(&o, "a")
			if tc.pods > 0 {
				o.Pods = asking(2, 2, 0).Pods[:tc.pods]
			}
			tc.change(&o)
			b.s.ledger.mu.Lock()
			b.s.ledger.holdRecorded(o)
			b.s.ledger.mu.Unlock()
			b.expect("another graph", asking(3, 2, 0), tc.want)
			if tc.want == "rack a" {
				return
			}
			b.clock.Step(2 * DefaultHoldFor)
			b.s.expireHolds()
			b.expect("a third graph, after a while", asking(4, 2, 0), "rack a")
		})
	}
}

const theGang = "g2-1"

// place records both pods of a replica on the hosts a0 and a1, in a rack.
func place(o *gang.Observation, rack string) {
	o.Record.Assign(theGang, gang.Key{Component: "work"}, topology.Path{"z", rack}, []string{"a0", "a1"}, begin)
}

func tooLarge() corev1.PodTemplateSpec {
	spec := withGPU(&corev1.Pod{}).Spec
	spec.Containers[0].Resources.Requests["gpu"] = resource.MustParse("9")
	return corev1.PodTemplateSpec{Spec: spec}
}

// Pods that wait and whose gang is assigned are released to their recorded hosts, whatever else has capacity, and with the same attempt. Where
// these have no capacity, or not all of the gang exists, it is planned again.
func TestRecordedGangsAreReleased(t *testing.T) {
	for title, tc := range map[string]struct {
		change func(*bench, *gang.Observation)
		rack   string
		record []string
	}{
		"as recorded":             {func(*bench, *gang.Observation) {}, "b", nil},
		"a recorded host is full": {func(b *bench, _ *gang.Observation) { b.taken("b1") }, "a", []string{"Assigned work-0: 2. in z/a a0+a1"}},
		"a recorded host is gone": {func(b *bench, _ *gang.Observation) { b.s.ledger.cluster.DeleteNode("b1") }, "a", []string{"Assigned work-0: 2. in z/a a0+a1"}},
		"a host moved to a rack":  {func(b *bench, _ *gang.Observation) { b.host("b1", "c", 1) }, "a", []string{"Assigned work-0: 2. in z/a a0+a1"}},
		"it violates the constraint": {func(b *bench, o *gang.Observation) {
			o.Groups[0].Spec.Topology.PackDomain = "rack"
			b.host("c0", "c", 1)
			o.Record.Gangs[theGang].Places[gang.Key{Component: "work"}] = assignment.Place{Attempt: 1, Domain: topology.Path{"z"}, Hosts: []string{"b0", "c0"}}
		}, "a", []string{"Assigned work-0: 2. in z/a a0+a1"}},
		"a pod was released with another gang": {func(b *bench, o *gang.Observation) {
			opened(o.Pods[0], "other", map[string]string{"z": "z", "r": "a"})
			b.s.ledger.podChanged(o.Pods[0])
		}, "a", []string{"Assigned work-0: 2. in z/a +a1"}},
		"the gang is evicted":      {func(_ *bench, o *gang.Observation) { o.Record.Evict(theGang, nil, "no", begin) }, "a", []string{"Assigned work-0: 2. in z/a a0+a1"}},
		"a gate of another client": {func(_ *bench, o *gang.Observation) { gated(o.Pods[0], "example.com/other") }, "", []string{"former work-0: 1. in z/b"}},
		"a pod does not exist":     {func(_ *bench, o *gang.Observation) { o.Pods = o.Pods[:1] }, "", []string{"former work-0: 1. in z/b"}},
	} {
		t.Run(title, func(t *testing.T) {
			b, o := newBench(t, Options{}), asking(2, 2, 0)
			o.Record = (&assignment.Record{}).Clone()
			o.Record.Assign(theGang, gang.Key{Component: "work"}, topology.Path{"z", "b"}, []string{"b0", "b1"}, begin)
			tc.change(b, &o)
			d := b.decide(o)
			if tc.rack == "" { // what is not done is recorded after a while
				b.clock.Step(recordAfter)
				d = b.decide(o)
			}
			var racks []string
			for _, release := range d.releases {
				racks = append(racks, release.Pin.Labels["r"])
				if tc.rack == "b" && release.Pin.Gang != theGang {
					t.Errorf("released with gang %s", release.Pin.Gang)
				}
			}
			if racks = slices.Compact(racks); strings.Join(racks, " ") != tc.rack {
				t.Errorf("released in %q, want %q", racks, tc.rack)
			}
			if diff := cmp.Diff(tc.record, recordedAs(d.record)); diff != "" {
				t.Errorf("record (-want +got):\n%s", diff)
			}
		})
	}
}

func gated(pod *corev1.Pod, gate string) {
	pod.Spec.SchedulingGates = append(pod.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: gate})
}

func recordIn(t *testing.T, r *recordStore, o gang.Observation) *assignment.Record {
	t.Helper()
	object := &trellisv1alpha1.GraphPlacement{}
	if err := r.Get(t.Context(), clientKey(o), object); err != nil {
		t.Fatal(err)
	}
	return assignment.Decode(&object.Spec)
}
