// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/render"
)

// A gang whose place is known is offered it once, its place is reserved, and one without a place is created gated.
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
		if len(d.releases) > 0 {
			t.Errorf("%d pods are released that do not exist", len(d.releases))
		}
		if diff := cmp.Diff(map[string]string{"work-0": tc.want}, w.ask(tc.o.Groups...)); diff != "" {
			t.Errorf("answer to %s (-want +got):\n%s", tc.o.DGD.Name, diff)
		}
		if !w.told[tc.o.Groups[0].Name] {
			t.Errorf("%s was not told", tc.o.Groups[0].Name)
		}
	}
	if d := w.look(one); len(d.creations) > 0 || d.result.Placed != 1 || len(d.result.Waiting) > 0 {
		t.Errorf("looked at again: %d creations, %d placed, waiting %v", len(d.creations), d.result.Placed, d.result.Waiting)
	}
	if got := w.reserved(); len(got) != 4 {
		t.Errorf("reservations: %v", got)
	}
}

// Pods take over the reservation that was created for them, and only for them: a pod of the same name that another group of the name owned,
// or that was created at another time, does not.
func TestPodsTakeOverTheirReservations(t *testing.T) {
	w := newCreating(t)
	o := planned(1, 2)
	sg := o.Groups[0]
	w.ask(sg)
	w.look(o)
	pods := w.create(sg, w.offerOf(sg))
	for name, spoil := range map[string]func(*corev1.Pod){
		"of an earlier group":    func(pod *corev1.Pod) { pod.OwnerReferences[0].UID = "earlier" },
		"of an earlier creation": func(pod *corev1.Pod) { pod.Annotations[render.AnnotationGang] = "g1-other" },
		"created gated":          func(pod *corev1.Pod) { delete(pod.Annotations, render.AnnotationGang) },
	} {
		other := pods[0].DeepCopy()
		other.UID = types.UID(name)
		spoil(other)
		w.s.ledger.podChanged(other)
		if diff := cmp.Diff(map[string]string{"a0": "g1-work-0-0", "a1": "g1-work-0-1"}, w.reserved()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	w.s.ledger.podChanged(pods[0])
	o.Pods = pods // the cache is ahead of the ledger
	if d := w.look(o); d.result.Placed != 1 || len(d.creations)+len(d.releases) > 0 {
		t.Errorf("%d placed, %d creations, %d releases", d.result.Placed, len(d.creations), len(d.releases))
	}
	if diff := cmp.Diff(map[string]string{"a0": "made", "a1": "made"}, w.reserved()); diff != "" {
		t.Errorf("reservations when the pods exist (-want +got):\n%s", diff)
	}
	if len(w.creations.byName) > 0 {
		t.Errorf("creations are left: %v", w.creations.byName)
	}
	bound := pods[0].DeepCopy()
	bound.Spec.NodeName = "a0"
	w.s.ledger.podChanged(bound)
	if diff := cmp.Diff(map[string]string{"a1": "made"}, w.reserved()); diff != "" {
		t.Errorf("reservations when one is bound (-want +got):\n%s", diff)
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
	first, other := w.offerOf(o.Groups[0]), w.offerOf(o.Groups[1])
	if first.Gang != other.Gang {
		t.Errorf("they are of two gangs: %s, %s", first.Gang, other.Gang)
	}

	w, o = newCreating(t), plannedBase(1)
	w.ask(o.Groups[1])
	o.Pods = []*corev1.Pod{withGPU(newPod(o.Groups[0], 0, 0))}
	w.look(o)
	if diff := cmp.Diff(map[string]string{"prefill-0": "gated"}, w.ask(o.Groups[1])); diff != "" {
		t.Errorf("one is gated (-want +got):\n%s", diff)
	}
}

// What follows a base gang waits until all of that is created, and goes where it is, although none of its pods is to be seen yet.
func TestRestFollowsWhatIsBeingMade(t *testing.T) {
	w, o := newCreating(t), plannedBase(1)
	w.taken("a0")
	for _, host := range []string{"c0", "c1", "c2"} {
		w.host(host, "c", 1)
	}
	w.ask(o.Groups...)
	w.look(o)
	w.create(o.Groups[0], w.offerOf(o.Groups[0]))
	w.host("b2", "b", 1)
	o.Groups[1].Spec.Replicas = 2
	w.ask(o.Groups[1])
	w.look(o)
	want := map[string]string{"prefill-0": "1 pods in b", "prefill-1": "wait"}
	if diff := cmp.Diff(want, w.ask(o.Groups[1])); diff != "" {
		t.Errorf("answers while the base gang is created (-want +got):\n%s", diff)
	}
	offer := w.creations.Ask(o.Groups[1], wantsOf(o.Groups[1], 2, 0))[0].Offer
	w.s.queue.take(w.clock.Now())
	w.create(o.Groups[1], offer)
	if due, _ := w.s.queue.take(w.clock.Now()); len(due) != 1 {
		t.Errorf("requeued when the base gang is created: %v", due)
	}
	rest := wantsOf(o.Groups[1], 2, 0)[1:]
	rest = append(rest, Want{Ordinal: 0, Unseen: true})
	w.creations.Ask(o.Groups[1], rest)
	w.look(o)
	if got := inWords(w.creations.Ask(o.Groups[1], rest)[1]); got != "1 pods in b" {
		t.Errorf("what follows: %s", got)
	}
}

// What ends a creation gives its place back, and has what was to be created together with it recreated, or gated.
func TestCreationsThatEnd(t *testing.T) {
	for name, tc := range map[string]struct {
		end  func(w *creating, o gang.Observation)
		want map[string]string
	}{
		"the pod could not be created": {
			end:  func(w *creating, o gang.Observation) { w.creations.Fail(w.offerOf(o.Groups[0])) },
			want: map[string]string{"decode-0": "gated", "prefill-0": "gated"},
		},
		"the group is scaled in and out": {
			end:  func(w *creating, o gang.Observation) { w.creations.Ask(o.Groups[0], nil) },
			want: map[string]string{"decode-0": "wait", "prefill-0": "wait"},
		},
		"the group has another revision": {
			end:  func(_ *creating, o gang.Observation) { o.Groups[0].Spec.Revision = "2" },
			want: map[string]string{"decode-0": "wait", "prefill-0": "wait"},
		},
		"the group is gone": {
			end: func(w *creating, o gang.Observation) {
				w.creations.Forget(client.ObjectKeyFromObject(o.Groups[0]))
				o.Groups[0].UID = "next"
			},
			want: map[string]string{"decode-0": "wait", "prefill-0": "wait"},
		},
		"the group is recreated": {
			end:  func(_ *creating, o gang.Observation) { o.Groups[0].UID = "next" },
			want: map[string]string{"decode-0": "wait", "prefill-0": "wait"},
		},
		"the graph is gone": {
			end:  func(w *creating, o gang.Observation) { w.s.ledger.graphGone(client.ObjectKeyFromObject(o.DGD)) },
			want: map[string]string{"decode-0": "wait", "prefill-0": "wait"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, o := newCreating(t), plannedBase(1)
			w.ask(o.Groups...)
			w.look(o)
			tc.end(w, o)
			if diff := cmp.Diff(tc.want, w.ask(o.Groups...)); diff != "" {
				t.Errorf("answers (-want +got):\n%s", diff)
			}
			for _, sg := range o.Groups {
				w.creations.Ask(sg, nil)
			}
			w.look(o)
			if got := w.reserved(); len(got) > 0 {
				t.Errorf("reservations are left: %v", got)
			}
		})
	}
}

// A pod that is created while its gang ends is not of the gang any more, and all that were created are returned.
func TestPodsOfAGangThatEnds(t *testing.T) {
	w, o := newCreating(t), plannedBase(1)
	w.ask(o.Groups...)
	w.look(o)
	first, other := w.offerOf(o.Groups[0]), w.offerOf(o.Groups[1])
	pods := w.create(o.Groups[0], first)
	w.s.ledger.podChanged(pods[0]) // all of its replica is created and known
	if !w.creations.Begin(other) {
		t.Fatal("the other group cannot begin")
	}
	created := w.creations.Fail(other)
	if len(created) != 1 || created[0].UID != pods[0].UID {
		t.Errorf("created: %v", created)
	}
	if w.creations.Created(other, pods[0]) || w.creations.Stands(other) || w.creations.Begin(other) {
		t.Error("the gang goes on")
	}
	if diff := cmp.Diff(map[string]string{"decode-0": "gated", "prefill-0": "gated"}, w.ask(o.Groups...)); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
}

// Pods that were created and are gone before any event of them came leave no reservation behind. Those that exist and that the cache does
// not show yet keep theirs.
func TestPodsThatWereNeverSeen(t *testing.T) {
	w, o := newCreating(t), planned(1, 2)
	w.ask(o.Groups...)
	w.look(o)
	w.create(o.Groups[0], w.offerOf(o.Groups[0]))
	w.look(o)
	if got := w.reserved(); len(got) != 2 {
		t.Errorf("reservations before a read has shown the pods: %v", got)
	}
	if got := w.creations.Begun(o.Groups[0]); !slices.Equal(got, []int32{0}) {
		t.Errorf("begun: %v", got)
	}
	if got := w.creations.Ask(o.Groups[0], []Want{{Ordinal: 0, Unseen: true}}); len(got) > 0 {
		t.Errorf("answers for pods that exist: %v", got)
	}
	w.look(o)
	if got := w.reserved(); len(got) != 2 {
		t.Errorf("reservations of pods that exist: %v", got)
	}
	w.creations.Ask(o.Groups[0], nil) // after a read that shows all that was created
	w.look(o)
	if got := w.reserved(); len(got) > 0 {
		t.Errorf("reservations: %v", got)
	}
}

// What does not have its place now is created gated, and waits there as ever.
func TestMadeBehindTheGate(t *testing.T) {
	for name, prepare := range map[string]func(w *creating, o *gang.Observation){
		"others have to leave first": func(w *creating, o *gang.Observation) {
			w.taken("a0", "b0")
			w.creations.Ask(o.Groups[0], nil)
			w.creations.Ask(o.Groups[0], wantsOf(o.Groups[0], 1, 10))
		},
		"there is no capacity": func(w *creating, _ *gang.Observation) { w.taken("a0", "b0", "a1", "b1") },
		"it was requeued": func(w *creating, o *gang.Observation) {
			w.s.ledger.backoffs.begin(client.ObjectKeyFromObject(o.DGD), "test", w.clock.Now())
		},
		"its level is gone": func(_ *creating, o *gang.Observation) {
			o.Profile = o.Profile.DeepCopy()
			o.Profile.Spec.Levels = o.Profile.Spec.Levels[:1]
		},
		"its provider is not ready": func(_ *creating, o *gang.Observation) { o.Bars = "test" },
	} {
		t.Run(name, func(t *testing.T) {
			w, o := newCreating(t), planned(1, 2)
			w.ask(o.Groups...)
			prepare(w, &o)
			w.look(o)
			var got string
			for _, one := range w.creations.byName {
				got = inWords(one.answer())
			}
			if got != "gated" {
				t.Errorf("answer %q, want gated", got)
			}
			if got := w.reserved(); len(got) > 0 {
				t.Errorf("reservations are left: %v", got)
			}
		})
	}
}

// A group that cannot ask for all that begins together at once does not wait for the rest.
func TestGroupsThatAskInParts(t *testing.T) {
	w, o := newCreating(t), plannedBase(1)
	o.Groups[0].Spec.Replicas, o.Groups[0].Spec.MinAvailable = 2, ptr.To(int32(2))
	part := wantsOf(o.Groups[0], 1, 0)
	part[0].More = true
	w.creations.Ask(o.Groups[0], part)
	w.ask(o.Groups[1])
	w.look(o)
	if got := inWords(w.creations.Ask(o.Groups[0], part)[0]); got != "gated" {
		t.Errorf("the part that was asked for: %s, want gated", got)
	}

	w, o = newCreating(t), planned(1, 1)
	w.taken("a0", "a1", "b0", "b1")
	o.Groups[0].Spec.Replicas, o.Groups[0].Spec.MinAvailable = 2, ptr.To(int32(2))
	part = wantsOf(o.Groups[0], 1, 0)
	part[0].More = true
	w.creations.Ask(o.Groups[0], part)
	w.look(o)
	if got := inWords(w.creations.Ask(o.Groups[0], part)[0]); got != "gated" {
		t.Errorf("the part for which there is no capacity: %s, want gated", got)
	}
}
