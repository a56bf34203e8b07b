// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

var _ = Describe("Hosts of their own", func() {
	// A host of 8 GPUs would hold all pods of a replica, and the rack with one such host is the tightest.
	It("keeps the pods of each replica on different hosts, which replicas share", func(ctx SpecContext) {
		w := newWorld(ctx, "distinct-hosts", append(racks(1, 8, "a/r0"), racks(3, 4, "a/r1")...)...)
		dgd := w.graphOf("g", "", services{"Worker": worker(2, 3, 2, "rack")})
		dgd.Annotations = map[string]string{render.AnnotationDistinctHosts: "true"}
		w.create(dgd)
		w.ready("g")
		Expect(w.of("Worker")).To(w.bePlacedIn("rack", "a/r1"))
		for ordinal, pods := range w.replicasOf("Worker") {
			hosts := map[string]bool{}
			for _, pod := range pods {
				hosts[pod.Spec.NodeName] = true
				Expect(pod.Spec.Affinity.PodAntiAffinity).To(BeNil(), "the planner pins hosts")
			}
			Expect(hosts).To(HaveLen(3), "replica %d", ordinal)
		}
		w.notEvicted(ctx)

		wide := w.graphOf("wide", "", services{"Worker": worker(1, 4, 1, "rack")})
		wide.Annotations = map[string]string{render.AnnotationDistinctHosts: "true"}
		w.create(wide)
		w.hasCondition("wide", nvidiav1alpha1.ConditionPlaced, metav1.ConditionFalse, "NeverFits", "no rack has 4 hosts: the largest has 3 (a/r1)")
	}, SpecTimeout(suite.Timeout()))
})
