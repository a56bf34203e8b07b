// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A deployment that is scaled out into free room, and then rolled, worries nobody: there is no Warning about it.
func TestOrdinaryChangesAreNoWarnings(t *testing.T) {
	w := newWorld(t, "no-warnings", racks(2, 8, "a/r0", "a/r1")...)
	w.create(w.graphOf("g", "zone", services{"Worker": worker(1, 2, 8, "rack"), "Frontend": frontend(1)}))
	w.ready("g")
	w.scale("g", "Worker", 2)
	w.ready("g")
	if n := len(w.all()); n != 5 {
		t.Fatalf("%d pods, want 5", n)
	}
	roll := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"services":{"Frontend":{"extraPodSpec":{"mainContainer":{"image":"example.com/frontend:2"}}}}}}`))
	if err := w.c.Patch(t.Context(), w.dgd("g"), roll); err != nil {
		t.Fatal(err)
	}
	w.until("the new frontend is the only one", func() error {
		pods := w.replicasOf("Frontend")[0]
		if len(pods) != 1 || pods[0].Spec.Containers[0].Image != "example.com/frontend:2" {
			return fmt.Errorf("%d pods", len(pods))
		}
		return nil
	})
	w.ready("g")
	for _, e := range list(w, &eventsv1.EventList{}).Items {
		if e.Type == corev1.EventTypeWarning && e.Regarding.Kind == "DynamoGraphDeployment" {
			t.Errorf("Warning %s: %s", e.Reason, e.Note)
		}
	}
}
