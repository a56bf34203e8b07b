// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package kueue

import (
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/trellis-k8s/trellis/internal/quota"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// checkPlaces has the team's quota kept only for what has a place.
func (t *team) checkPlaces() {
	GinkgoHelper()
	t.forSpec(kueueObject("AdmissionCheck", "", t.name, map[string]any{"controllerName": quota.CheckController}))
	change := fmt.Sprintf(`{"spec":{"admissionChecksStrategy":{"admissionChecks":[{"name":%q}]}}}`, t.name)
	t.answered(func() error { return api.Patch(t.ctx, t.clusterQueue(gpuResource), merge(change)) })
}

var _ = Describe("A queue of the real Kueue with the AdmissionCheck of Trellis", Serial, suite.Slow, func() {
	It("admits what has a place, and takes the quota back of what has none", func(ctx SpecContext) {
		t := newHall(ctx, 1).newTeam("a", 32)
		t.checkPlaces()
		t.create(t.graph("first", workers(1)))
		t.ready("first")
		t.says("first", reserved, metav1.ConditionTrue, "QuotaReserved")

		By("having quota for a second one, and no place")
		t.create(t.graph("second", workers(1)))
		t.says("second", placed, metav1.ConditionFalse, "InsufficientCapacity")
		Expect(t.running()).To(Equal(int64(16)))
		t.until("the quota is given back", func() error { return t.retried("second") })

		By("making space: the second one gets quota again, and its place")
		t.remove("first")
		t.ready("second")
		t.settle()
	}, SpecTimeout(suite.Timeout()))
})

// retried reports whether the Workload of a deployment has lost its quota since it found no place.
func (t *team) retried(name string) error {
	GinkgoHelper()
	for _, w := range t.workloads() {
		for _, c := range w.Status.Conditions {
			if w.Labels[render.LabelGraph] == name && c.Type == "QuotaReserved" && c.Status == metav1.ConditionFalse {
				return t.uses(16)
			}
		}
	}
	return fmt.Errorf("the quota of %s is reserved", name)
}
