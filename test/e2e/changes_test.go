// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/test/testutil/tier"
)

// All members gone, the graph is free to choose again: scaled to zero and back it leaves the zone that has become too small.
func TestScaleToZeroFreesTheGraph(t *testing.T) {
	tier.All(t)
	w := newWorld(t, "to-zero", racks(2, 8, "a/r0", "b/r0")...)
	w.create(w.graphOf("g", "zone", services{"Worker": worker(1, 2, 8, "")}))
	w.ready("g")
	first := w.domains("zone", w.all()...)[0]
	w.scale("g", "Worker", 0)
	w.until("all pods are gone", func() error {
		if n := len(w.all()); n > 0 {
			return fmt.Errorf("%d pods", n)
		}
		return nil
	})
	w.ready("g")
	w.occupy("other", first+"-r0-0", 1)
	w.scale("g", "Worker", 1)
	w.ready("g")
	if got := w.domains("zone", w.all()...); len(got) != 1 || got[0] == first {
		t.Errorf("the graph is in %v, want the zone other than %s", got, first)
	}
}

// Deleted and created again under the same name before the first one's pods are gone: the new one waits for that and then comes up, with
// no alarm raised.
func TestRecreated(t *testing.T) {
	tier.All(t)
	w := newWorld(t, "recreated", racks(2, 8, "a/r0")...)
	dgd := w.graphOf("g", "zone", services{"Worker": worker(1, 2, 8, "rack")})
	w.create(dgd.DeepCopy())
	w.ready("g")
	before := w.uids()
	if err := w.c.Delete(t.Context(), w.dgd("g")); err != nil {
		t.Fatal(err)
	}
	w.create(dgd)
	w.until("the pods are new", func() error { return w.allNew(before, 2) })
	w.ready("g")
	w.noEvent("failed_to_reconcile_the_resources")
}

// A constraint stays as it was created, whichever version of the API asks for another.
func TestConstraintIsImmutable(t *testing.T) {
	w := newWorld(t, "immutable", racks(2, 8, "a/r0")...)
	w.create(w.graphOf("g", "zone", services{"Worker": worker(1, 2, 8, "")}))
	w.ready("g")
	rack := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"topologyConstraint":{"packDomain":"rack"}}}`))
	refused(t, w.c.Patch(t.Context(), w.dgd("g"), rack), "immutable")
	hub := get(w, &nvidiav1beta1.DynamoGraphDeployment{}, w.name, "g")
	refused(t, w.c.Patch(t.Context(), hub, rack), "immutable")
	if level := w.dgd("g").Spec.TopologyConstraint.PackDomain; level != "zone" {
		t.Errorf("packDomain is %q, want zone", level)
	}
}

// A change of the template replaces replica by replica, in place.
func TestRollingUpdate(t *testing.T) {
	w := newWorld(t, "rolling", racks(2, 8, "a/r0", "a/r1")...)
	w.create(w.graphOf("g", "zone", services{"Worker": worker(2, 2, 8, "rack")}))
	w.ready("g")
	before := w.uids()
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"services":{"Worker":{"extraPodSpec":{"mainContainer":{"image":"example.com/vllm:2"}}}}}}`))
	if err := w.c.Patch(t.Context(), w.dgd("g"), patch); err != nil {
		t.Fatal(err)
	}
	w.until("all replicas are new", func() error { return w.allNew(before, 4) })
	w.ready("g")
	for _, pod := range w.all() {
		if pod.Spec.Containers[0].Image != "example.com/vllm:2" {
			t.Errorf("pod %s runs %s", pod.Name, pod.Spec.Containers[0].Image)
		}
	}
	if s := w.dgd("g").Status.Services["Worker"]; s.UpdatedReplicas != 2 {
		t.Errorf("updatedReplicas = %d, want 2", s.UpdatedReplicas)
	}
}
