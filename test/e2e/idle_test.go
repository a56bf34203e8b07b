// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	. "github.com/onsi/ginkgo/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

var _ = Describe("A graph whose scheduler is not there", func() {
	// The pods of a graph have a scheduler that is not there. The capacity reserved for them goes to the next graph.
	It("is reported, and its capacity goes to the next graph", func(ctx SpecContext) {
		w := newWorld(ctx, "nobody", racks(2, 8, "a/r0")...)
		nobody := worker(1, 2, 8, "rack")
		nobody.ExtraPodSpec.PodSpec = &corev1.PodSpec{SchedulerName: "nobody"}
		w.create(w.graphOf("g", "zone", services{"Worker": nobody}))
		w.hasCondition("g", placed, metav1.ConditionFalse, "SchedulingBlocked", `no scheduler with the name "nobody" has tried to bind pod g-worker-0-`)
		w.hasEvent("Pod", "g-worker-0-0", "SchedulingBlocked", "its capacity is not reserved any more")
		w.create(w.graphOf("next", "zone", services{"Worker": worker(1, 2, 8, "rack")}))
		w.ready("next")
	}, SpecTimeout(suite.Timeout()))
})
