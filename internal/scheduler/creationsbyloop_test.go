// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/internal/gang"
)

// A creation may end while a plan is made that places it: its group has changed, or asks no more. Nothing of its gang is offered then, and
// nothing stays reserved for it.
func TestCreationsThatEndWithinAPlan(t *testing.T) {
	for name, end := range map[string]func(o gang.Observation){
		"the group has another revision": func(o gang.Observation) { o.Groups[0].Spec.Revision = "2" },
		"the group is scaled in":         func(o gang.Observation) { o.Groups[0].Spec.Replicas = 0 },
	} {
		t.Run(name, func(t *testing.T) {
			w, o := newCreating(t), plannedBase(1)
			w.ask(o.Groups...)
			d := decision{graph: client.ObjectKeyFromObject(o.DGD)}
			l, seen := w.s.ledger, o
			l.takeCreations(&seen, &d)
			l.decideAbout(t.Context(), &seen, &d)
			end(o)
			answers := w.ask(o.Groups...)
			l.settleCreations(&seen, &d)
			w.s.writers.answer(t.Context(), o.DGD, w.creations, &d)
			if due, _ := w.s.queue.take(w.clock.Now()); len(due) != 1 {
				t.Errorf("requeued: %v", due)
			}
			if got := w.reserved(); len(got) > 0 {
				t.Errorf("reservations are left: %v", got)
			}
			if diff := cmp.Diff(answers, w.ask(o.Groups...)); diff != "" || answers["prefill-0"] != "wait" {
				t.Errorf("answers after the plan: %v (-before +after):\n%s", answers, diff)
			}
		})
	}
}

// When one of a gang cannot be created any more after others have begun, all of the gang is recreated gated: what exists would run without
// the rest for as long as that cannot be created.
func TestGangsThatAreNotCompleted(t *testing.T) {
	withdraw := func(w *creating, o gang.Observation) { w.creations.Ask(o.Groups[1], nil) }
	for name, tc := range map[string]struct {
		// first is how far the first create is: seen, created, or underway, which has no answer yet.
		first string
		end   func(w *creating, o gang.Observation)
	}{
		"its creates pause":                 {"seen", withdraw},
		"the first create has no answer":    {"underway", withdraw},
		"it is of another revision":         {"seen", func(w *creating, o gang.Observation) { o.Groups[1].Spec.Revision = "2"; w.ask(o.Groups[1]) }},
		"its group is gone":                 {"seen", func(w *creating, o gang.Observation) { w.creations.Forget(client.ObjectKeyFromObject(o.Groups[1])) }},
		"the first pod is gone again":       {"created", func(w *creating, o gang.Observation) { w.ask(o.Groups[0]) }},
		"its create failed, and is written": {"seen", func(w *creating, o gang.Observation) { w.creations.Fail(w.offerOf(o.Groups[1])) }},
	} {
		t.Run(name, func(t *testing.T) {
			w, o := newCreating(t), plannedBase(1)
			w.ask(o.Groups...)
			w.look(o)
			offer := w.offerOf(o.Groups[0])
			switch tc.first {
			case "underway":
				w.creations.Begin(offer)
			case "created":
				w.create(o.Groups[0], offer)
			default:
				o.Pods = w.create(o.Groups[0], offer)
				w.s.ledger.podChanged(o.Pods[0])
			}
			clear(w.told)
			tc.end(w, o)
			if !w.creations.Failed(o.Groups[0], offer.Gang) || !w.told[o.Groups[0].Name] {
				t.Errorf("the pods of the first group are to be deleted: %v, told: %v", w.creations.Failed(o.Groups[0], offer.Gang), w.told)
			}
			if tc.first == "underway" && w.creations.Created(offer, &corev1.Pod{}) {
				t.Error("a pod that is created meanwhile stays")
			}
			if got := w.ask(o.Groups[0]); got["decode-0"] != "gated" {
				t.Errorf("recreated: %v", got)
			}
			w.look(o)
			if got := w.reserved(); len(got) != len(o.Pods) { // that of the pod itself, until it is gone
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
			w.creations.Ask(first, wantsOf(first, 2, 0)[1:])
			o.Pods = []*corev1.Pod{withGPU(newPod(first, 0, 0))}
			if d := w.look(o); len(d.releases) > 0 {
				t.Errorf("%s is released alone", d.releases[0].Pod.Name)
			}
		})
	}
}

// Nothing of a graph is created or released next to a base gang that is not whole, or of which pods are to be deleted since it could not be
// completed: it would keep the graph where the rest may never be.
func TestNothingFollowsABaseGangThatIsNotWhole(t *testing.T) {
	w, o := newCreating(t), plannedBase(1)
	w.host("a2", "a", 1)
	o.Groups[1].Spec.Replicas = 2
	wants := wantsOf(o.Groups[1], 2, 0)
	wants[0].More, wants[1].More = true, true // further replicas do not matter: the base gang is asked for
	w.ask(o.Groups[0])
	w.creations.Ask(o.Groups[1], wants)
	w.look(o)
	want := map[string]string{"decode-0": "1 pods in a", "prefill-0": "1 pods in a", "prefill-1": "wait"}
	if diff := cmp.Diff(want, w.ask(o.Groups...)); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
	o.Pods = w.create(o.Groups[0], w.offerOf(o.Groups[0]))
	w.s.ledger.podChanged(o.Pods[0])
	w.creations.Fail(w.offerOf(o.Groups[1]))
	o.Pods = append(o.Pods, withGPU(newPod(o.Groups[1], 0, 0)))
	if d := w.look(o); len(d.releases) > 0 || len(d.result.Waiting) == 0 || d.result.Waiting[0].Message != gang.AfterDeletion {
		t.Errorf("%d pods are released next to a pod that is to be deleted; waiting: %v", len(d.releases), d.result.Waiting)
	}
	ending := o.Pods[0].DeepCopy()
	ending.DeletionTimestamp = &metav1.Time{Time: w.clock.Now()}
	o.Pods[0] = ending
	o.Pods = append(o.Pods, withGPU(newPod(o.Groups[0], 1, 0)))
	w.look(o)
	if why := w.creations.unfinished(client.ObjectKeyFromObject(o.DGD), o.Pods); why != "" {
		t.Errorf("with a pod that ends the others wait: %s", why)
	}
	w.s.queue.take(w.clock.Now())
	w.creations.Forget(client.ObjectKeyFromObject(o.Groups[0]))
	if due, _ := w.s.queue.take(w.clock.Now()); len(due) != 1 {
		t.Errorf("requeued when the group is gone: %v", due)
	}
}

// What follows a base gang keeps its place while that is created: the graph does not leave the domain of its base gang.
func TestWhatFollowsABaseGangKeepsItsPlace(t *testing.T) {
	w, x := newCreating(t), plannedBase(1)
	w.host("a2", "a", 1)
	w.host("b2", "b", 1)
	w.taken("b0")
	x.Groups[1].Spec.Replicas = 2
	y := planned(2, 1)
	w.ask(x.Groups...)
	w.ask(y.Groups...)
	w.look(x)
	w.look(y)
	if diff := cmp.Diff(map[string]string{"work-0": "1 pods in b"}, w.ask(y.Groups...)); diff != "" {
		t.Errorf("another graph (-want +got):\n%s", diff)
	}
	offers := w.creations.Ask(x.Groups[1], wantsOf(x.Groups[1], 2, 0))
	x.Pods = w.create(x.Groups[0], w.offerOf(x.Groups[0]))
	w.s.ledger.podChanged(x.Pods[0])
	bound := x.Pods[0].DeepCopy()
	bound.Spec.NodeName, _ = w.s.ledger.cluster.Reserved(string(bound.UID))
	x.Pods[0] = bound
	w.s.ledger.podChanged(bound)
	for number := 3; number < 5; number++ {
		z := planned(number, 1)
		w.ask(z.Groups...)
		w.look(z)
		if got := w.ask(z.Groups...)["work-0"]; strings.Contains(got, "in a") {
			t.Errorf("a further graph is created with what is held: %s", got)
		}
	}
	w.create(x.Groups[1], offers[0].Offer)
	w.look(x)
	rest := append(wantsOf(x.Groups[1], 2, 0)[1:], Want{Ordinal: 0, Unseen: true})
	if got := inWords(w.creations.Ask(x.Groups[1], rest)[1]); got != "1 pods in a" {
		t.Errorf("what follows: %s", got)
	}
	if len(w.s.ledger.holds.byPod) > 0 {
		t.Errorf("held: %v", w.s.ledger.holds.byPod)
	}
}

// What is held for replicas that follow a base gang is given back when they are not wanted any more.
func TestWhatFollowsABaseGangIsScaledIn(t *testing.T) {
	w, x := newCreating(t), plannedBase(1)
	w.host("a2", "a", 1)
	x.Groups[1].Spec.Replicas = 2
	w.ask(x.Groups...)
	w.look(x)
	if n := len(w.s.ledger.holds.byPod); n != 1 {
		t.Errorf("%d pods are held for", n)
	}
	x.Groups[1].Spec.Replicas = 1
	w.ask(x.Groups[1])
	w.look(x)
	if n := len(w.s.ledger.holds.byPod); n != 0 || len(w.reserved()) != 2 {
		t.Errorf("%d pods are held for; reserved: %v", n, w.reserved())
	}
}

// What is held for replicas that follow a base gang is given back when that could not be created: both are planned again.
func TestWhatFollowsABaseGangThatFails(t *testing.T) {
	w, x := newCreating(t), plannedBase(1)
	w.host("a2", "a", 1)
	x.Groups[1].Spec.Replicas = 2
	w.ask(x.Groups...)
	w.look(x)
	w.creations.Fail(w.offerOf(x.Groups[0]))
	w.ask(x.Groups...)
	w.look(x)
	if n := len(w.s.ledger.holds.byPod); n != 0 || len(w.reserved()) != 0 {
		t.Errorf("%d pods are held for; reserved: %v", n, w.reserved())
	}
}
