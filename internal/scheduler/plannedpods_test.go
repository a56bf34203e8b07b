// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/assignment"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/provider"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// Pods take over the reservation that was made for them, and only for them: a pod of the same name that another group of the name owned,
// or that was created at another attempt, does not.
func TestPodsTakeOverTheirReservations(t *testing.T) {
	w := newCreating(t)
	o := planned(1, 2)
	w.ask(o.Groups...)
	w.look(o)
	pods := w.create(o.Groups[0])
	for name, spoil := range map[string]func(*corev1.Pod){
		"of an earlier group":   func(pod *corev1.Pod) { pod.OwnerReferences[0].UID = "earlier" },
		"of an earlier attempt": func(pod *corev1.Pod) { pod.Annotations[render.AnnotationAttempt] = "7" },
		"created gated":         func(pod *corev1.Pod) { pod.Annotations = nil },
	} {
		other := pods[0].DeepCopy()
		other.UID, other.Spec.Affinity = types.UID(name), nil
		spoil(other)
		w.s.ledger.podChanged(other)
		if diff := cmp.Diff(map[string]string{"a0": "g1-work-0-0", "a1": "g1-work-0-1"}, w.reserved()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	w.s.ledger.podChanged(pods[0])
	o.Pods = pods // the cache is ahead of the ledger
	if d := w.look(o); d.result.Placed != 1 || len(d.releases) > 0 {
		t.Errorf("%d placed, %d releases", d.result.Placed, len(d.releases))
	}
	if diff := cmp.Diff(map[string]string{"a0": "made", "a1": "made"}, w.reserved()); diff != "" {
		t.Errorf("reservations when the pods exist (-want +got):\n%s", diff)
	}
	if n := w.count(func(r *released) bool { return r.releasing }) + len(w.s.ledger.planned); n > 0 {
		t.Errorf("%d planned pods are left", n)
	}
	bound := pods[0].DeepCopy()
	bound.Spec.NodeName = "a0"
	w.s.ledger.podChanged(bound)
	if diff := cmp.Diff(map[string]string{"a1": "made"}, w.reserved()); diff != "" {
		t.Errorf("reservations when one is bound (-want +got):\n%s", diff)
	}
}

// Pods that are created in place, and those that are planned into their rack later, are each pinned to a host of their own.
func TestPodsInPlaceShareARack(t *testing.T) {
	w := newCreating(t)
	one, two := planned(1, 1), planned(2, 1)
	w.ask(one.Groups...)
	w.look(one)
	w.see(w.create(one.Groups[0]))
	w.ask(two.Groups...)
	w.look(two)
	if diff := cmp.Diff([]string{"Assigned work-0: 1. in z/a a1"}, recordedAs(w.records["g2"])); diff != "" {
		t.Errorf("record (-want +got):\n%s", diff)
	}
}

// recordedIn is a creating bench with a graph whose gang is recorded in rack b, and of which nothing exists.
func recordedIn(t *testing.T, change func(w *creating, r *assignment.Record)) (*creating, gang.Observation) {
	w, o := newCreating(t), planned(1, 2)
	for i := range o.Groups[0].Spec.Roles {
		o.Groups[0].Spec.Roles[i].Template.Spec = withGPU(&corev1.Pod{}).Spec
	}
	r := (&assignment.Record{}).Clone()
	r.Assign("earlier", work0, topology.Path{"z", "b"}, []string{"b0", "b1"}, begin.Add(-time.Hour))
	change(w, r)
	w.records["g1"] = r
	return w, o
}

// What is recorded is created there and at that attempt, also if an earlier leader has recorded it, and nothing is written for it. Where the
// recorded hosts have no capacity it waits while another operator may create it, and is placed again then.
func TestRecordedGangsAreCreated(t *testing.T) {
	for title, tc := range map[string]struct {
		change func(w *creating, r *assignment.Record)
		after  time.Duration
		want   string
		writes bool
	}{
		"as recorded":                      {func(*creating, *assignment.Record) {}, 0, "2 pods in b", false},
		"later":                            {func(*creating, *assignment.Record) {}, createWithin, "2 pods in b", false},
		"a host is taken":                  {func(w *creating, _ *assignment.Record) { w.taken("b1") }, 0, "wait", false},
		"a host is taken, and it is later": {func(w *creating, _ *assignment.Record) { w.taken("b1") }, createWithin, "2 pods in a (2.)", true},
		"it is evicted":                    {func(_ *creating, r *assignment.Record) { r.Evict("earlier", nil, "no", begin) }, 0, "2 pods in a (2.)", true},
		"a pod of the attempt was deleted": {func(w *creating, _ *assignment.Record) {
			sg := planned(1, 2).Groups[0]
			pod := newPod(sg, 0, 0)
			pod.Annotations = map[string]string{render.AnnotationAttempt: "1"}
			w.asks.End(sg, pod)
		}, 0, "2 pods in a (2.)", true},
		"pods of the attempt were seen": {func(w *creating, _ *assignment.Record) {
			w.s.ledger.spend(named("g1"), map[gang.Key]int32{work0: 1})
		}, 0, "2 pods in a (2.)", true},
	} {
		t.Run(title, func(t *testing.T) {
			w, o := recordedIn(t, tc.change)
			if tc.after > 0 {
				w.look(o)
				w.pass(tc.after)
			}
			w.ask(o.Groups...)
			d := w.look(o)
			if got := w.ask(o.Groups...)["work-0"]; got != tc.want || (d.record != nil) != tc.writes {
				t.Errorf("answer %q, want %q; record %v", got, tc.want, recordedAs(d.record))
			}
		})
	}
}

// Another operator has about 10 seconds to create what it records, also where it places a replica again in its gang, whatever its clock
// shows.
func TestTheTimeOfAnotherOperator(t *testing.T) {
	recordAt := func(w *creating, attempt int32, since time.Time) {
		r := w.records["g1"].Clone()
		g := r.Gangs["earlier"]
		g.Since = since
		r.Gangs["earlier"] = g
		r.Raise(work0, attempt)
		w.records["g1"] = r
	}
	for title, tc := range map[string]struct {
		prepare func(w *creating, o gang.Observation)
	}{
		"its clock is an hour ahead": {func(w *creating, _ gang.Observation) { recordAt(w, 1, begin.Add(time.Hour)) }},
		"its clock is an hour behind, and it places the replica again": {func(w *creating, o gang.Observation) {
			w.look(o)
			w.pass(2 * createWithin)
			recordAt(w, 2, begin.Add(-time.Hour))
		}},
	} {
		t.Run(title, func(t *testing.T) {
			w, o := recordedIn(t, func(w *creating, _ *assignment.Record) { w.taken("b1") })
			tc.prepare(w, o)
			w.ask(o.Groups...)
			w.look(o)
			if diff := cmp.Diff(map[string]string{"work-0": "wait"}, w.ask(o.Groups...)); diff != "" {
				t.Errorf("answer at once (-want +got):\n%s", diff)
			}
			w.pass(createWithin)
			w.look(o)
			if got := w.ask(o.Groups...)["work-0"]; !strings.HasPrefix(got, "2 pods in a") {
				t.Errorf("answer later: %s", got)
			}
		})
	}
}

// What an earlier leader has recorded keeps its hosts until its group can have asked for it.
func TestRecordedGangsKeepTheirHosts(t *testing.T) {
	w, o := recordedIn(t, func(*creating, *assignment.Record) {})
	if d := w.look(o); d.record != nil || d.result.Placed != 1 {
		t.Errorf("%d placed, record %v", d.result.Placed, recordedAs(d.record))
	}
	w.taken("a0")
	w.expect("another graph", asking(2, 2, 0), "holds 1 of 2")
	w.pass(createWithin)
	w.look(o)
	w.pass(recordAfter)
	w.look(o)
	if diff := cmp.Diff([]string{"former work-0: 1. in z/b"}, recordedAs(w.records["g1"])); diff != "" {
		t.Errorf("record (-want +got):\n%s", diff)
	}
	w.expect("another graph later", asking(3, 2, 0), "rack b")
}

// When a create is refused, the gang is recorded as evicted at once, its pods are deleted, also those that appear later, and what follows its
// base gang. All of it is created gated.
func TestGangsThatAreNotCreated(t *testing.T) {
	for name, exist := range map[string]int{"nothing exists": 0, "one of two exists": 1} {
		t.Run(name, func(t *testing.T) {
			w, o := newCreating(t), plannedBase(1)
			placer := &objecting{}
			w.s.providers = provider.New(provider.Options{}, provider.All{Placers: []provider.Placer{placer}})
			newRecordStore(t, w.bench)
			w.ask(o.Groups...)
			w.look(o)
			if err := w.s.placements.write(t.Context(), o.DGD, recorded{}, w.records["g1"]); err != nil {
				t.Fatal(err)
			}
			pods := w.create(o.Groups[0])
			if o.Pods = pods[:exist]; exist > 0 {
				w.see(o.Pods)
			}
			refused := w.refuse(o.Groups[1])
			w.s.objects.reader = graphs{"g1": o}
			o.Record = w.records["g1"]
			if evicts := w.s.requeueStuck(t.Context(), o); evicts != (exist > 0) || len(placer.taken) != exist {
				t.Errorf("evicted: %v", placer.taken)
			}
			was, err := w.s.placements.of(t.Context(), o.DGD)
			if err != nil {
				t.Fatal(err)
			}
			if w.records["g1"] = was.record; exist == 0 {
				d := w.look(o)
				if d.record == nil {
					t.Error("it is not recorded at once")
				}
			} else if got := was.record.Gangs[refused]; got.State != trellisv1alpha1.GangEvicting || got.Message != uncreatable {
				t.Errorf("recorded: %+v", got)
			}
			if until, pauses := w.s.ledger.backoffs.of(clientKey(o), w.clock.Now()); pauses {
				t.Errorf("the graph pauses until %v", until)
			}
			if exist == 0 { // a create was under way
				o.Pods, o.Record = pods, w.records["g1"]
				if !o.Leaves(pods[0]) {
					t.Error("a pod that appears later is not deleted")
				}
			}
			o.Pods = nil
			w.look(o)
			if diff := cmp.Diff(map[string]string{"decode-0": "gated", "prefill-0": "gated"}, w.ask(o.Groups...)); diff != "" {
				t.Errorf("answers (-want +got):\n%s", diff)
			}
			if len(w.asks.refused) > 0 {
				t.Errorf("remembered: %v", w.asks.refused)
			}
		})
	}
}

// What follows a base gang that could not be created, and is being created at that moment, is of an attempt that does not count any more: it
// would keep the graph where the base gang may have no place. What follows another gang is created.
func TestWhatFollowsAGangThatIsNotCreated(t *testing.T) {
	for name, base := range map[string]bool{"a base gang": true, "another gang": false} {
		t.Run(name, func(t *testing.T) {
			w, o := newCreating(t), plannedBase(1)
			w.host("a2", "a", 1)
			follows := gang.Key{Component: "prefill", Ordinal: 1}
			o.Groups[1].Spec.Replicas = 2
			w.ask(o.Groups...)
			w.look(o)
			attempts := w.records["g1"].Replicas("prefill")
			late := w.createOrdinal(o.Groups[1], 1)
			if base {
				w.refuse(o.Groups[0])
			} else {
				of, _, _ := attempts.Assigned(1)
				w.asks.Refuse(o.Groups[1], of, []gang.Key{{Component: "prefill", Ordinal: 7}}, false)
				clear(w.asks.refused)
			}
			w.look(o)
			o.Pods, o.Record = late, w.records["g1"]
			if got := o.Leaves(late[0]); got != base || o.Record.AttemptOf(follows) != 1 {
				t.Errorf("leaves %v, want %v; record %v", got, base, recordedAs(o.Record))
			}
		})
	}
}

// A pod that is created after its graph was read is neither taken for gone nor superseded when another gang of the graph is evicted.
func TestPodsThatAppearBeforeAnEviction(t *testing.T) {
	for name, evict := range map[string]func(w *creating, o gang.Observation, refused string, late *corev1.Pod){
		"when an eviction continues": func(w *creating, o gang.Observation, _ string, _ *corev1.Pod) {
			w.s.requeueStuck(w.t.Context(), o)
		},
		"when an eviction is recorded": func(w *creating, o gang.Observation, refused string, late *corev1.Pod) {
			evicted := map[string]eviction{refused: {reason: ReasonUnschedulable, why: "test"}}
			if !w.s.recordEviction(w.t.Context(), o, evicted, []*corev1.Pod{late}) {
				w.t.Error("the eviction is not recorded")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, o := newCreating(t), planned(1, 1)
			w.s.providers = provider.New(provider.Options{}, provider.All{Placers: []provider.Placer{&objecting{}}})
			store, sg := newRecordStore(t, w.bench), o.Groups[0]
			sg.Spec.Replicas = 2
			w.ask(sg)
			w.look(o)
			if err := w.s.placements.write(t.Context(), o.DGD, recorded{}, w.records["g1"]); err != nil {
				t.Fatal(err)
			}
			attempts := w.records["g1"].Replicas("work")
			refused, _, _ := attempts.Assigned(1)
			members, base := attempts.Members(refused)
			late, pods := w.createOrdinal(sg, 1), w.create(sg)
			w.asks.Refuse(sg, refused, members, base)
			w.see(append(pods, late...))
			shown := o
			shown.Pods = append(pods, late...)
			w.s.objects.reader = withGroup{graphs{"g1": shown}, sg}
			o.Record = w.records["g1"]
			evict(w, o, refused, late[0])
			if node := w.nodeOf(pods[0]); node == "" || len(w.s.ledger.past) > 0 {
				t.Errorf("its reservation is on %q, %d pods count as gone", node, len(w.s.ledger.past))
			}
			now := recordIn(t, store, o)
			if _, assigned := now.Assigned(work0); !assigned || !now.Evicting(refused) {
				t.Errorf("record: %v", recordedAs(now))
			}
		})
	}
}

// asksEnd is a cache that shows no pod of a graph yet. When its pods were read, replicas are not asked for any more.
type asksEnd struct {
	withGroup
	end func()
}

func (a asksEnd) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	err := a.withGroup.List(ctx, list, opts...)
	if _, pods := list.(*corev1.PodList); pods {
		a.end()
	}
	return err
}

// The pods of a replica appear when those of its graph were read already, and its group asks for it no more. It keeps its place.
func TestAsksThatEndAfterThePodsWereRead(t *testing.T) {
	w, o := newCreating(t), planned(1, 1)
	newRecordStore(t, w.bench)
	sg := o.Groups[0]
	w.ask(sg)
	w.look(o)
	if err := w.s.placements.write(t.Context(), o.DGD, recorded{}, w.records["g1"]); err != nil {
		t.Fatal(err)
	}
	pods := w.create(sg)
	sg.Spec.Replicas = 2
	w.asks.Ask(sg, wantsOf(sg, 2, 0)[1:], []int32{0})
	w.s.objects.reader = asksEnd{withGroup{graphs{"g1": o}, sg}, func() { w.asks.Ask(sg, wantsOf(sg, 2, 0)[1:], nil) }}
	d, err := w.s.decideNow(t.Context(), &o)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"Assigned work-0: 1. in z/a a0", "Assigned work-1: 1. in z/a a1"}, recordedAs(d.record)); diff != "" {
		t.Errorf("record (-want +got):\n%s", diff)
	}
	w.see(pods)
	if diff := cmp.Diff(map[string]string{"a0": "made", "a1": "g1-work-1"}, w.reserved()); diff != "" {
		t.Errorf("reservations (-want +got):\n%s", diff)
	}
}

// recordedStore has the record of a graph stored, its evictions noted, and its pods shown.
func (w *creating) recordedStore(o gang.Observation) *objecting {
	w.t.Helper()
	placer := &objecting{}
	w.s.providers = provider.New(provider.Options{}, provider.All{Placers: []provider.Placer{placer}})
	newRecordStore(w.t.(*testing.T), w.bench)
	if err := w.s.placements.write(w.t.Context(), o.DGD, recorded{}, w.records[o.DGD.Name]); err != nil {
		w.t.Fatal(err)
	}
	w.s.objects.reader = graphs{o.DGD.Name: o}
	return placer
}

// A part of a base gang is created, and the rest never is: the gang is evicted, and nothing keeps capacity.
func TestAnsweredReplicasThatAreNeverCreated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, o := newCreating(t), plannedBase(1)
		w.ask(o.Groups...)
		w.look(o)
		o.Pods = w.create(o.Groups[0])
		o.Pods[0].Spec.NodeName = o.Pods[0].Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchFields[0].Values[0]
		w.see(o.Pods)
		placer := w.recordedStore(o)
		w.look(o)
		w.pass(servedPatience*DefaultRequeueAfter - time.Second)
		w.settle()
		if len(placer.taken) > 0 || len(w.reserved()) != 1 {
			t.Errorf("evicted early: %v, reservations: %v", placer.taken, w.reserved())
		}
		w.pass(time.Second)
		w.settle()
		if !slices.Equal(placer.taken, []string{"g-decode-0"}) || len(w.reserved()) > 0 {
			t.Errorf("evicted: %v, reservations: %v", placer.taken, w.reserved())
		}
	})
}

// failing is a graph whose place could not be recorded twice. It is looked at once each time, and not while it pauses.
func failing(t *testing.T) (w *creating, o gang.Observation, store *recordStore) {
	w, o = newCreating(t), planned(1, 1)
	store = newRecordStore(t, w.bench)
	store.err = errors.New("no space")
	w.s.objects.reader = withGroup{graphs{"g1": o}, o.Groups[0]}
	w.ask(o.Groups...)
	for range 2 {
		due, _ := w.s.queue.take(w.clock.Now())
		w.s.round(t.Context(), due)
		synctest.Wait()
		w.pass(lastRetry)
	}
	if n := len(w.s.ledger.failures); n != 1 || store.writes != 2 {
		t.Errorf("%d graphs fail after %d writes", n, store.writes)
	}
	return w, o, store
}

// Places that could not be recorded at first are not reported as failing when they are.
func TestFailuresEndWithAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, o, store := failing(t)
		store.err = nil
		w.settle()
		if attempts, _ := w.asks.Answered(o.Groups[0]); attempts[0] == 0 || len(w.s.ledger.failures) > 0 {
			t.Errorf("answered: %v, failures: %v", attempts, w.s.ledger.failures)
		}
	})
}

// A graph that pauses after failures has its replicas created gated. They are not reported as failing when they are released.
func TestFailuresEndWithARelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, o, store := failing(t)
		w.settle() // it fails again
		w.settle() // it pauses
		if answer := w.ask(o.Groups...)["work-0"]; answer != "gated" {
			t.Errorf("answered: %s", answer)
		}
		o.Pods = asking(1, 1, 0).Pods
		w.s.objects.reader = graphs{"g1": o}
		w.s.providers = provider.New(provider.Options{}, provider.All{Placers: []provider.Placer{&opening{b: w.bench}}})
		w.asks.Ask(o.Groups[0], nil, nil)
		store.err = nil
		w.pass(lastRetry)
		w.settle()
		if w.settle(); render.GateClosed(o.Pods[0]) || len(w.s.ledger.failures) > 0 {
			t.Errorf("gated: %v, failures: %v", render.GateClosed(o.Pods[0]), w.s.ledger.failures)
		}
	})
}

// A gang that could not be created is announced once, also when nothing of it exists.
func TestRefusedGangsAreAnnounced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, o := newCreating(t), plannedBase(1)
		w.ask(o.Groups...)
		w.look(o)
		w.recordedStore(o)
		for len(w.said.Events) > 0 {
			<-w.said.Events
		}
		of := w.refuse(o.Groups[0])
		for range 2 {
			w.s.queue.add(clientKey(o))
			w.settle()
		}
		announced := 0
		for len(w.said.Events) > 0 {
			if event := <-w.said.Events; strings.Contains(event, "gang "+of+" is evicted and requeued: "+uncreatable) {
				announced++
			}
		}
		if announced != 1 {
			t.Errorf("announced %d times", announced)
		}
	})
}

// Pods that follow a base gang appear before it is refused, and nothing of the base gang exists: they are evicted.
func TestWhatFollowsABaseGangOfWhichNothingExists(t *testing.T) {
	w, o := newCreating(t), plannedBase(1)
	w.host("a2", "a", 1)
	o.Groups[1].Spec.Replicas = 2
	w.ask(o.Groups...)
	w.look(o)
	o.Pods = w.see(w.createOrdinal(o.Groups[1], 1))
	placer := w.recordedStore(o)
	placer.fail = 1
	w.refuse(o.Groups[0])
	for range 2 {
		was, err := w.s.placements.of(t.Context(), o.DGD)
		if err != nil {
			t.Fatal(err)
		}
		o.Record = was.record
		if !w.s.requeueStuck(t.Context(), o) {
			t.Error("nothing is to be evicted")
		}
	}
	if !slices.Equal(placer.taken, []string{"g-prefill-1"}) {
		t.Errorf("evicted: %v", placer.taken)
	}
}
