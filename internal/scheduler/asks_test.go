// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/gang"
)

// A gang whose place is known is answered once, its place is reserved, and one without a place is created gated.
func TestPlacesBeforePods(t *testing.T) {
	w := newCreating(t)
	one, two, three := planned(1, 2), planned(2, 2), planned(3, 2)
	for _, o := range []gang.Observation{one, two, three} {
		if diff := cmp.Diff(map[string]string{"work-0": "wait"}, w.ask(o.Groups...)); diff != "" {
			t.Errorf("%s before it is looked at (-want +got):\n%s", o.DGD.Name, diff)
		}
	}
	for _, tc := range []struct {
		o    gang.Observation
		want string
	}{{one, "2 pods in a"}, {two, "2 pods in b"}, {three, "gated"}} {
		d := w.look(tc.o)
		if gangs := gangsOf(tc.o, d.releases, nil); len(gangs) > 0 {
			t.Errorf("%d gangs are released of which no pod exists", len(gangs))
		}
		if diff := cmp.Diff(map[string]string{"work-0": tc.want}, w.ask(tc.o.Groups...)); diff != "" {
			t.Errorf("answer to %s (-want +got):\n%s", tc.o.DGD.Name, diff)
		}
		if !w.told[tc.o.Groups[0].Name] {
			t.Errorf("%s was not told", tc.o.Groups[0].Name)
		}
	}
	if d := w.look(one); len(d.releases) > 0 || d.record != nil || d.result.Placed != 1 || len(d.result.Waiting) > 0 {
		t.Errorf("looked at again: %d releases, record %v, %d placed, waiting %v", len(d.releases), recordedAs(d.record), d.result.Placed, d.result.Waiting)
	}
	if got := w.reserved(); len(got) != 4 {
		t.Errorf("reservations: %v", got)
	}
}

// A base gang is placed after all of its replicas were requested. If one of its pods is gated, all of its pods are created gated.
func TestBaseGangIsAskedForAsAWhole(t *testing.T) {
	w, o := newCreating(t), plannedBase(1)
	w.ask(o.Groups[1])
	w.look(o)
	if diff := cmp.Diff(map[string]string{"prefill-0": "wait"}, w.ask(o.Groups[1])); diff != "" {
		t.Errorf("one asks (-want +got):\n%s", diff)
	}
	w.ask(o.Groups...)
	w.look(o)
	want := map[string]string{"decode-0": "1 pods in a", "prefill-0": "1 pods in a"}
	if diff := cmp.Diff(want, w.ask(o.Groups...)); diff != "" {
		t.Errorf("both ask (-want +got):\n%s", diff)
	}
	if gangs := w.records["g1"].Gangs; len(gangs) != 1 {
		t.Errorf("they are of %d gangs", len(gangs))
	}

	w, o = newCreating(t), plannedBase(1)
	w.ask(o.Groups[1])
	o.Pods = []*corev1.Pod{withGPU(newPod(o.Groups[0], 0, 0))}
	w.look(o)
	if diff := cmp.Diff(map[string]string{"prefill-0": "gated"}, w.ask(o.Groups[1])); diff != "" {
		t.Errorf("one is gated (-want +got):\n%s", diff)
	}
}

// What follows a base gang is placed with it, and in a graph that has begun where that is, although none of its pods is to be seen yet.
func TestTheRestIsPlacedWithTheBaseGang(t *testing.T) {
	for name, later := range map[string]bool{"at once": false, "later": true} {
		t.Run(name, func(t *testing.T) {
			w, o := newCreating(t), plannedBase(1)
			w.taken("a0")
			for _, host := range []string{"c0", "c1", "c2"} {
				w.host(host, "c", 1)
			}
			w.host("b2", "b", 1)
			if later {
				w.ask(o.Groups...)
				w.look(o)
			}
			o.Groups[1].Spec.Replicas = 2
			w.ask(o.Groups...)
			w.look(o)
			want := map[string]string{"decode-0": "1 pods in b", "prefill-0": "1 pods in b", "prefill-1": "1 pods in b"}
			if diff := cmp.Diff(want, w.ask(o.Groups...)); diff != "" {
				t.Errorf("answers (-want +got):\n%s", diff)
			}
		})
	}
}

// An ask that ends gives its place back. The rest of its gang keeps its own, and a replica that is asked for again joins it at the next
// attempt. When nobody asks, nothing stays reserved.
func TestAsksThatEnd(t *testing.T) {
	for name, tc := range map[string]struct {
		end         func(w *creating, o gang.Observation)
		before, now map[string]string
	}{
		"a pod could not be created": {
			end:    func(w *creating, o gang.Observation) { w.refuse(o.Groups[0]) },
			before: map[string]string{"decode-0": "gated", "prefill-0": "gated"},
			now:    map[string]string{"decode-0": "gated", "prefill-0": "gated"},
		},
		"the group is scaled in and out": {
			end:    func(w *creating, o gang.Observation) { w.asks.Ask(o.Groups[0], nil, nil) },
			before: map[string]string{"decode-0": "wait", "prefill-0": "1 pods in a"},
			now:    map[string]string{"decode-0": "1 pods in a (2.)", "prefill-0": "1 pods in a"},
		},
		"the group has another revision": {
			end:    func(_ *creating, o gang.Observation) { o.Groups[0].Spec.Revision = "2" },
			before: map[string]string{"decode-0": "wait", "prefill-0": "1 pods in a"},
			now:    map[string]string{"decode-0": "1 pods in a (2.)", "prefill-0": "1 pods in a"},
		},
		"the group is gone, and there is another one": {
			end: func(w *creating, o gang.Observation) {
				w.asks.Forget(client.ObjectKeyFromObject(o.Groups[0]))
				o.Groups[0].UID = "next"
			},
			before: map[string]string{"decode-0": "wait", "prefill-0": "1 pods in a"},
			now:    map[string]string{"decode-0": "1 pods in a (2.)", "prefill-0": "1 pods in a"},
		},
		"the group is recreated": {
			end:    func(_ *creating, o gang.Observation) { o.Groups[0].UID = "next" },
			before: map[string]string{"decode-0": "wait", "prefill-0": "1 pods in a"},
			now:    map[string]string{"decode-0": "1 pods in a (2.)", "prefill-0": "1 pods in a"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, o := newCreating(t), plannedBase(1)
			w.ask(o.Groups...)
			w.look(o)
			tc.end(w, o)
			if diff := cmp.Diff(tc.before, w.ask(o.Groups...)); diff != "" {
				t.Errorf("answers at first (-want +got):\n%s", diff)
			}
			w.look(o)
			if diff := cmp.Diff(tc.now, w.ask(o.Groups...)); diff != "" {
				t.Errorf("answers (-want +got):\n%s", diff)
			}
			for _, sg := range o.Groups {
				w.asks.Ask(sg, nil, nil)
			}
			w.look(o)
			if got := w.reserved(); len(got)+len(w.s.ledger.planned) > 0 {
				t.Errorf("left are the reservations %v and %d planned pods", got, len(w.s.ledger.planned))
			}
		})
	}
}

// refuse has the gang of a first replica refused.
func (w *creating) refuse(sg *trellisv1alpha1.ScalingGroup) (name string) {
	attempts := w.records[sg.Spec.Graph].Replicas(sg.Spec.Component)
	name, _, _ = attempts.Assigned(0)
	members, base := attempts.Members(name)
	w.asks.Refuse(sg, name, members, base)
	return name
}

// Nothing of a graph that is gone stays reserved, and what its groups asked for is not created.
func TestAsksOfAGraphThatIsGone(t *testing.T) {
	w, o := newCreating(t), plannedBase(1)
	w.ask(o.Groups...)
	w.look(o)
	w.refuse(o.Groups[1])
	w.s.ledger.graphGone(client.ObjectKeyFromObject(o.DGD))
	if got := w.reserved(); len(got)+len(w.s.ledger.planned)+len(w.asks.refused)+len(w.asks.gated) > 0 {
		t.Errorf("left are the reservations %v, %d planned pods, %v and %v", got, len(w.s.ledger.planned), w.asks.refused, w.asks.gated)
	}
}

// Of replicas whose creation has begun, those with pods past the cache keep their place, and all others are placed again.
func TestBegunCreations(t *testing.T) {
	w, o := newCreating(t), planned(1, 2)
	w.ask(o.Groups...)
	w.look(o)
	w.create(o.Groups[0])
	w.look(o)
	if attempts, begun := w.asks.Answered(o.Groups[0]); attempts[0] != 1 || !slices.Equal(begun, []int32{0}) {
		t.Errorf("attempts %v, begun %v", attempts, begun)
	}
	if got := w.asks.Ask(o.Groups[0], nil, []int32{0}); len(got) > 0 {
		t.Errorf("answers for pods that exist: %v", got)
	}
	w.look(o)
	if got := w.reserved(); len(got) != 2 {
		t.Errorf("reservations of pods that exist: %v", got)
	}
	if got := w.ask(o.Groups...)["work-0"]; got != "wait" {
		t.Errorf("answer when no pod exists: %s", got)
	}
	w.look(o)
	if got := w.ask(o.Groups...)["work-0"]; got != "2 pods in a (2.)" {
		t.Errorf("answer after a look: %s", got)
	}
	if w.asks.Begin(o.Groups[0], 0, 1) {
		t.Error("it is created at the former attempt")
	}
}

// What does not have its place now is created gated, and waits there as ever.
func TestMadeBehindTheGate(t *testing.T) {
	for name, prepare := range map[string]func(w *creating, o *gang.Observation){
		"others have to leave first": func(w *creating, o *gang.Observation) {
			w.taken("a0", "b0")
			w.asks.Ask(o.Groups[0], nil, nil)
			w.asks.Ask(o.Groups[0], wantsOf(o.Groups[0], 1, 10), nil)
		},
		"there is no capacity": func(w *creating, _ *gang.Observation) { w.taken("a0", "b0", "a1", "b1") },
		"it was requeued": func(w *creating, o *gang.Observation) {
			w.s.ledger.backoffs.begin(client.ObjectKeyFromObject(o.DGD), "test", w.clock.Now())
		},
		"its level is gone": func(_ *creating, o *gang.Observation) {
			o.ClusterTopology = o.ClusterTopology.DeepCopy()
			o.ClusterTopology.Spec.Levels = o.ClusterTopology.Spec.Levels[:1]
		},
		"its provider is not ready": func(_ *creating, o *gang.Observation) { o.Bars = "test" },
	} {
		t.Run(name, func(t *testing.T) {
			w, o := newCreating(t), planned(1, 2)
			w.ask(o.Groups...)
			prepare(w, &o)
			w.look(o)
			if got := w.ask(o.Groups...)["work-0"]; got != "gated" {
				t.Errorf("answer %q, want gated", got)
			}
			if got := w.reserved(); len(got) > 0 {
				t.Errorf("reservations are left: %v", got)
			}
		})
	}
}

// Replicas that a component does not run without are released together, when all of them exist, and before those that follow.
func TestFirstReplicasAreCreatedGated(t *testing.T) {
	for name, more := range map[string]int{"alone": 0, "with another component": 1} {
		t.Run(name, func(t *testing.T) {
			w, o := newCreating(t), planned(1, 1)
			w.host("a2", "a", 1)
			for range more {
				other := newGroup("other", 1, 1, frozen("", "rack"))
				other.Spec.Graph = o.DGD.Name
				o.Groups = append(o.Groups, other)
			}
			first := o.Groups[0]
			first.Spec.Replicas, first.Spec.MinAvailable = 3, ptr.To(int32(2))
			w.ask(o.Groups...)
			w.look(o)
			want := map[string]string{"work-0": "gated", "work-1": "gated", "work-2": "wait"}
			if diff := cmp.Diff(want, w.ask(first)); diff != "" {
				t.Errorf("answers (-want +got):\n%s", diff)
			}
			w.asks.Ask(first, wantsOf(first, 2, 0)[1:], nil)
			o.Pods = []*corev1.Pod{withGPU(newPod(first, 0, 0))}
			if d := w.look(o); len(gangsOf(o, d.releases, nil)) > 0 {
				t.Errorf("%s is released alone", d.releases[0].Pod.Name)
			}
		})
	}
}
