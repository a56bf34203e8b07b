// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Pods that are created in place, and those that are planned into their rack later, are each pinned to a host of their own.
func TestPodsInPlaceShareARack(t *testing.T) {
	w := newCreating(t)
	one, two := planned(1, 1), planned(2, 1)
	w.ask(one.Groups...)
	w.look(one)
	pods := w.create(one.Groups[0], w.offerOf(one.Groups[0]))
	w.s.ledger.podChanged(pods[0])
	w.ask(two.Groups...)
	w.look(two)
	for _, release := range w.offerOf(two.Groups[0]).Releases {
		if release.Pin.Labels["r"] != "a" || release.Pin.Node != "a1" {
			t.Errorf("it is pinned to host %q in rack %q, want a1 in a", release.Pin.Node, release.Pin.Labels["r"])
		}
	}
	bound := pods[0].DeepCopy()
	bound.Spec.NodeName = "a0"
	w.s.ledger.podChanged(bound)
	if diff := cmp.Diff(map[string]string{"a1": "g2-work-0"}, w.reserved()); diff != "" {
		t.Errorf("reservations when one is bound (-want +got):\n%s", diff)
	}
}
