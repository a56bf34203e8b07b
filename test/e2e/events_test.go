// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"

	"github.com/trellis-k8s/trellis/test/testutil/tier"
)

// A deployment that is scaled out into free capacity worries nobody: there is no Warning about it.
func TestScaleOutIsNoWarning(t *testing.T) {
	tier.All(t)
	w := newWorld(t, "no-warnings", racks(2, 8, "a/r0", "a/r1")...)
	w.create(w.graphOf("g", "zone", services{"Worker": worker(1, 2, 8, "rack"), "Frontend": frontend(1)}))
	w.ready("g")
	w.scale("g", "Worker", 2)
	w.ready("g")
	if n := len(w.all()); n != 5 {
		t.Fatalf("%d pods, want 5", n)
	}
	for _, e := range list(w, &eventsv1.EventList{}).Items {
		if e.Type == corev1.EventTypeWarning && e.Regarding.Kind == "DynamoGraphDeployment" {
			t.Errorf("Warning %s: %s", e.Reason, e.Note)
		}
	}
}
