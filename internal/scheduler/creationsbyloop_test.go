// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"testing"

	"github.com/google/go-cmp/cmp"
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
			w.s.answer(t.Context(), o.DGD, d)
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

// The rest of a gang of which a pod exists keeps its capacity when its group asks no more for a while, because its creates pause: the pod
// would wait for another rack otherwise.
func TestTheRestOfABegunGangKeepsItsCapacity(t *testing.T) {
	w, o := newCreating(t), plannedBase(1)
	w.taken("b0", "b1")
	w.ask(o.Groups...)
	w.look(o)
	o.Pods = w.create(o.Groups[0], w.offerOf(o.Groups[0]))
	w.s.ledger.podChanged(o.Pods[0])
	w.creations.Ask(o.Groups[1], nil)
	w.look(o)
	other := planned(2, 1)
	w.ask(other.Groups...)
	w.look(other)
	if diff := cmp.Diff(map[string]string{"work-0": "gated"}, w.ask(other.Groups...)); diff != "" {
		t.Errorf("another graph (-want +got):\n%s", diff)
	}
	w.ask(o.Groups[1])
	w.look(o)
	if diff := cmp.Diff(map[string]string{"prefill-0": "1 pods in a, first g-prefill-0"}, w.ask(o.Groups[1])); diff != "" {
		t.Errorf("the rest (-want +got):\n%s", diff)
	}
	w.creations.Ask(o.Groups[1], nil)
	w.look(o)
	w.pass(w.s.options.HoldFor)
	w.s.ledger.expire()
	if got := w.reserved(); len(got) != 1 {
		t.Errorf("reservations after the hold: %v", got)
	}
}
