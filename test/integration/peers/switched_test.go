// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"context"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/test/testutil/graphs"
)

// serve switches the API of a peer's kind on and off. Its objects stay stored.
func serve(t *testing.T, kind string, on bool) {
	t.Helper()
	name := ctrlclient.ObjectKey{Name: resources[kind].GroupResource().String()}
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error { // the API server writes its status
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := typed.Get(context.Background(), name, crd); err != nil {
			return err
		}
		for i := range crd.Spec.Versions {
			if v := &crd.Spec.Versions[i]; v.Name == resources[kind].Version {
				v.Served = on
			}
		}
		return typed.Update(context.Background(), crd)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// switchOff ends a peer's API until the returned function, or the end of the test, brings it back. The provider gives the reason.
func (w *world) switchOff(kind, reason string) (on func()) {
	w.t.Helper()
	w.t.Cleanup(func() { serve(w.t, kind, true) })
	serve(w.t, kind, false)
	w.is(nvidiav1alpha1.ConditionProviderReady, no, reason, "is not served")
	return func() {
		w.t.Helper()
		serve(w.t, kind, true)
		w.is(nvidiav1alpha1.ConditionProviderReady, yes, "ProviderAvailable")
	}
}

// stay: these pods are there, and nobody is about to delete them.
func (w *world) stay(uids map[types.UID]bool) {
	w.t.Helper()
	pods, err := w.pods()
	if err != nil {
		w.t.Fatal(err)
	}
	n := 0
	for i := range pods {
		if uids[pods[i].UID] && pods[i].DeletionTimestamp == nil {
			n++
		}
	}
	if n != len(uids) {
		w.t.Errorf("%d of %d pods stay", n, len(uids))
	}
}

// TestKAIIsSwitchedOffAndOn: what runs stays, what is new waits for the API and then joins.
func TestKAIIsSwitchedOffAndOn(t *testing.T) {
	w := newWorld(t, "kai-off", racks(2, 8, "a/r0", "a/r1")...)
	w.deploy(specs.KAI.Name, "zone", "", services{"Worker": worker(1, 2, 8, "rack")})
	w.in("Worker", 0, 2, "a/r0")
	w.serves()
	running := graphs.UIDs(w.of("Worker"))

	on := w.switchOff("PodGroup", "FieldsDropped") // as with a KAI that is too old
	w.scale("Worker", 2)
	w.is(placed, no, "ProviderNotReady", "Worker-1")
	w.stay(running)

	on()
	w.tree(inZoneRacks2)
	w.in("Worker", 1, 2, "a/r1")
	w.serves()
	w.stay(running)
}

// TestGroveIsSwitchedOffAndOn: the set and the pods that Grove made of it stay, and it is changed again when the API is back.
func TestGroveIsSwitchedOffAndOn(t *testing.T) {
	w := newWorld(t, "grove-off", racks(2, 8, "a/r0", "a/r1")...)
	w.deploy(specs.Grove.Name, "zone", "", services{"Worker": worker(1, 2, 8, "rack")})
	w.set(groveZoneRacks1)
	w.groveServes()
	w.grovePod("Worker", "worker-ldr", 0, "a-r0-0")
	w.serves()
	running := graphs.UIDs(w.of("Worker"))
	_, before := w.podCliqueSet()

	on := w.switchOff("PodCliqueSet", "APINotServed")
	w.scale("Worker", 2)
	w.is(placed, no, "WaitsForGrove")
	w.stay(running)

	on()
	w.groveWants("worker", 2)
	w.groveServes()
	w.serves()
	w.stay(running)
	if _, now := w.podCliqueSet(); now.GetUID() != before.GetUID() {
		t.Error("the set was recreated")
	}
}
