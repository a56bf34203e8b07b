// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"fmt"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/test/testutil/graphs"
	"github.com/trellis-k8s/trellis/test/testutil/simulated"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// keptDefinition is the definition that stays after a downgrade: docs/migrate.md.
const keptDefinition = "CustomResourceDefinition/scalinggroups.trellis.dev"

var _ = DescribeTable("Deployments keep their pods through an upgrade, the way back, and another upgrade", Serial,
	func(ctx SpecContext, commit string, knows ...string) {
		former, now := earlier(ctx, commit), present()
		w := newWorld(ctx, "up-"+commit, former, simulated.Shape{Zones: 2, Blocks: 1, Racks: 4, Hosts: 4, GPUs: 8})
		fill(ctx, w)

		By("the present version takes over while a replica loses a pod and another component grows")
		before := w.bound(ctx, "run-0")
		w.lose(ctx, "run-0-worker-0-1")
		w.scale(ctx, "grow-0", "Worker", 3, 7)
		w.becomes(ctx, now)
		w.settled(ctx)
		Expect(w.lost(before)).To(BeEmpty(), "pods that were deleted by the upgrade")
		w.recorded(ctx)
		w.grow(ctx, "run-1", "grow-1")

		By("the earlier version returns while a replica loses a pod")
		before = w.bound(ctx, "run-2")
		w.lose(ctx, "run-2-worker-0-0")
		if slices.Contains(knows, beta) {
			former.Keep = []string{keptDefinition}
			w.becomes(ctx, former)
			w.settled(ctx)
			Expect(w.lost(before)).To(BeEmpty(), "pods that were deleted on the way back")
		} else { // it may replace pods
			w.withoutBeta(ctx)
			w.becomes(ctx, former)
			w.settled(ctx)
		}
		w.create(ctx, "under-former", graphs.Components{"Worker": graphs.Worker(1, 2, 2, "rack"), "Frontend": graphs.Frontend(1)})
		w.grow(ctx, "run-3", "grow-2")

		By("the present version takes over again, with a record of before")
		before = w.bound(ctx, "run-4")
		w.lose(ctx, "run-4-worker-0-1")
		w.scale(ctx, "grow-3", "Worker", 3, 7)
		w.becomes(ctx, now)
		w.settled(ctx)
		Expect(w.lost(before)).To(BeEmpty(), "pods that were deleted by the second upgrade")
		w.recorded(ctx)

		By("capacity becomes free for what has waited since the first version")
		for i := range 4 {
			Expect(w.c.Delete(ctx, w.dgd(fmt.Sprintf("large-%d", i)))).To(Succeed())
			delete(w.wants, fmt.Sprintf("large-%d", i))
		}
		w.wants["waits"] = 11
		w.settled(ctx)
	},
	Entry("v0.1.0", SpecTimeout(3*suite.Timeout()), "5b4a6d52", alpha),
	Entry("v0.2.0", SpecTimeout(3*suite.Timeout()), "aebbfd5b", alpha, beta),
	Entry("the first that names hosts", SpecTimeout(3*suite.Timeout()), "4dcff1a4", alpha, beta),
	Entry("the last without GraphPlacements", SpecTimeout(3*suite.Timeout()), "e533abc", alpha, beta),
)

// fill creates 20 deployments, one of them without capacity, and waits until the others are Ready.
func fill(ctx SpecContext, w *world) {
	GinkgoHelper()
	for i := range 4 { // one rack each
		w.create(ctx, fmt.Sprintf("large-%d", i), graphs.Components{"Worker": graphs.Worker(1, 4, 8, "rack")})
	}
	w.settled(ctx)
	for i := range 10 {
		w.create(ctx, fmt.Sprintf("run-%d", i), graphs.Components{"Worker": graphs.Worker(1, 2, 2, "rack"), "Frontend": graphs.Frontend(1)})
	}
	for i := range 5 {
		w.create(ctx, fmt.Sprintf("grow-%d", i), graphs.Components{"Worker": graphs.Worker(2, 2, 1, "rack"), "Frontend": graphs.Frontend(1)})
	}
	w.settled(ctx)
	w.create(ctx, "waits", graphs.Components{"Worker": graphs.Worker(1, 11, 8, "")})
	w.wants["waits"] = 0
	w.settled(ctx)
}

// grow lets one deployment lose a pod and another grow, under one version.
func (w *world) grow(ctx SpecContext, loses, grows string) {
	GinkgoHelper()
	before := w.bound(ctx, loses)
	w.lose(ctx, loses+"-worker-0-1")
	w.scale(ctx, grows, "Worker", 3, 7)
	w.settled(ctx)
	Expect(w.lost(before)).To(BeEmpty(), "pods deleted in addition")
}

// recorded waits until each deployment except the waiting one has a GraphPlacement with all its replicas.
func (w *world) recorded(ctx SpecContext) {
	GinkgoHelper()
	Eventually(func() error {
		list := &trellisv1alpha1.GraphPlacementList{}
		if err := w.c.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return err
		}
		bound := map[string]int32{}
		for i := range list.Items {
			bound[list.Items[i].Name] = list.Items[i].Spec.BoundReplicas
		}
		for name, pods := range w.wants {
			if pods > 0 && bound[name] == 0 {
				return fmt.Errorf("deployment %s has no bound replica in its GraphPlacement", name)
			}
		}
		return nil
	}, suite.Timeout()).WithContext(ctx).Should(Succeed())
}
