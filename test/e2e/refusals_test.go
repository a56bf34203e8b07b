// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

var _ = Describe("A gang that the kube-scheduler refuses for a reason that Trellis does not count", func() {
	// A host of each rack is unfit for the pods, which only the kube-scheduler knows. The gang is tried in one rack and then in the other, and while both are
	// left out it describes what the kube-scheduler said in each. As soon as one rack is fit, it starts there.
	It("is tried elsewhere, says place by place why not, and starts where it fits", func(ctx SpecContext) {
		w := newWorld(ctx, "refused", racks(2, 8, "a/r0", "a/r1")...)
		w.outOfSight("a-r0-0")
		w.outOfSight("a-r1-0")
		w.create(w.graphOf("g", "", services{"Worker": withPodSpec(worker(1, 2, 8, "rack"), disk(true))}))
		w.hasCondition("g", placed, metav1.ConditionFalse, gang.CodeUnschedulable, "0 of 1 packed replicas are placed", "the scheduler refuses pod g-worker-0-")
		w.hasEvent("Pod", "g-worker-0-0", gang.CodeUnschedulable, "nodes are available")
		w.hasEvent("DynamoGraphDeployment", "g", gang.CodeRequeued, "left out for such pods: ")
		w.hasCondition("g", placed, metav1.ConditionFalse, gang.CodeRefusedEverywhere, "it has capacity only where a scheduler refused it", "r0", "r1")
		w.inSight("a-r1-0")
		w.ready("g")
		Expect(w.of("Worker")).To(w.bePlacedIn("rack", "a/r1"))
	}, SpecTimeout(suite.Timeout()))
})
