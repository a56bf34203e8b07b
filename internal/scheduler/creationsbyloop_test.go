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
			if got := w.reserved(); len(got) > 0 {
				t.Errorf("reservations are left: %v", got)
			}
			if diff := cmp.Diff(answers, w.ask(o.Groups...)); diff != "" || answers["prefill-0"] != "wait" {
				t.Errorf("answers after the plan: %v (-before +after):\n%s", answers, diff)
			}
		})
	}
}
