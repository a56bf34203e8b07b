// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/internal/provider/kai"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
)

// TestKAIStarts: a normal start under KAI refuses nothing, and gated pods are of no PodGroup, so KAI says nothing of them.
func TestKAIStarts(t *testing.T) {
	w := newWorld(t, "starts", racks(2, 8, "a/r0")...)
	w.deploy(specs.KAI.Name, "zone", "", services{"Worker": worker(2, 2, 8, "rack")})
	w.in("Worker", 0, 2, "a/r0")
	w.held("Worker", 1, 2)
	for _, pod := range w.replica("Worker", 1) {
		if pod.Annotations[kai.AnnotationPodGroup] != "" || pod.Labels[kai.LabelSubGroup] != "" {
			t.Errorf("%s is gated and a member: %v %v", pod.Name, pod.Annotations, pod.Labels)
		}
		for _, c := range pod.Status.Conditions {
			if c.Reason == corev1.PodReasonUnschedulable {
				t.Errorf("KAI says of gated %s: %s", pod.Name, c.Message)
			}
		}
	}
	w.is(placed, no, "InsufficientCapacity")
	w.addHosts(racks(2, 8, "a/r1")...)
	w.in("Worker", 1, 2, "a/r1")
	w.serves()
	events := &eventsv1.EventList{}
	if err := typed.List(t.Context(), events, ctrlclient.InNamespace(watched)); err != nil {
		t.Fatal(err)
	}
	for i := range events.Items {
		if e := &events.Items[i]; e.Regarding.Name == w.name && e.Reason == "SchedulerRefuses" {
			t.Errorf("refused: %s", e.Note)
		}
	}

	t.Log("a replica is lost and finds no capacity: it is listed no longer, or KAI would call all of the graph stale")
	w.cordon("a-r0-0")
	w.cordon("a-r0-1")
	w.free(&w.replica("Worker", 0)[0])
	w.held("Worker", 0, 2)
	w.tree(`
g needs 1 in one zone
  g-worker-all needs 1
    g-worker-1 pods 2 in one rack`)
}
