// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/test/testutil/graphs"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// serve switches the API of a peer's kind on and off. Its objects stay stored.
func serve(ctx context.Context, kind string, on bool) {
	GinkgoHelper()
	name := ctrlclient.ObjectKey{Name: resources[kind].GroupResource().String()}
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error { // the API server writes its status
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := typed.Get(ctx, name, crd); err != nil {
			return err
		}
		for i := range crd.Spec.Versions {
			if v := &crd.Spec.Versions[i]; v.Name == resources[kind].Version {
				v.Served = on
			}
		}
		return typed.Update(ctx, crd)
	})
	Expect(err).NotTo(HaveOccurred())
}

// switchOff ends a peer's API until the returned function, or the end of the spec, brings it back. The provider gives the reason.
func (w *world) switchOff(kind, reason string) (on func()) {
	GinkgoHelper()
	DeferCleanup(func(ctx SpecContext) { serve(ctx, kind, true) })
	serve(w.ctx, kind, false)
	w.is(nvidiav1alpha1.ConditionProviderReady, no, reason, "is not served")
	return func() {
		GinkgoHelper()
		serve(w.ctx, kind, true)
		w.is(nvidiav1alpha1.ConditionProviderReady, yes, "ProviderAvailable")
	}
}

// stay: these pods are there, and none of them is being deleted.
func (w *world) stay(uids map[types.UID]bool) {
	GinkgoHelper()
	pods, err := w.pods()
	Expect(err).NotTo(HaveOccurred())
	n := 0
	for i := range pods {
		if uids[pods[i].UID] && pods[i].DeletionTimestamp == nil {
			n++
		}
	}
	Expect(n).To(Equal(len(uids)), "pods that stay")
}

var _ = Describe("While the API of a peer is switched off", Serial, func() {
	It("what runs under KAI stays, and what is new waits for the API and then joins", labelKAI, SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		w := newWorld(ctx, "kai-off", racks(2, 8, "a/r0", "a/r1")...)
		w.deploy(specs.KAI.Name, "zone", "", components{"Worker": worker(1, 2, 8, "rack")})
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
	})

	It("Grove's pods stay, and the PodCliqueSet is changed in place afterwards", labelGrove, SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		w := newWorld(ctx, "grove-off", racks(2, 8, "a/r0", "a/r1")...)
		w.deploy(specs.Grove.Name, "zone", "", components{"Worker": worker(1, 2, 8, "rack")})
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
		_, now := w.podCliqueSet()
		Expect(now.GetUID()).To(Equal(before.GetUID()), "the set was recreated")
	})
})
