// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package kueue

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/internal/quota"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// checkPlaces adds an AdmissionCheck to the team's queue, so that only gangs with a place keep their quota.
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
		Expect(t.checks("first")).To(Equal(map[string]string{t.name: quota.CheckReady}))

		By("having quota for a second one, and no place")
		t.create(t.graph("second", workers(1)))
		t.says("second", placed, metav1.ConditionFalse, "InsufficientCapacity")
		Expect(t.running()).To(Equal(int64(16)))
		t.until("the quota is given back", func() error { return t.retried("second") })
		t.says("second", reserved, metav1.ConditionFalse, "QuotaPending", "0 of 1 Workloads", "no place was found", "asked for again after")

		By("making space: the second one gets quota again, and its place")
		t.remove("first")
		t.ready("second")
		t.settle()
	}, SpecTimeout(suite.Timeout()))

	It("says which rights the operator lacks, and admits when it has them", func(ctx SpecContext) {
		t := newHall(ctx, 1).newTeam("a", 16)
		role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "trellis-manager-kueue-placement"}}
		t.answered(func() error { return api.Get(ctx, client.ObjectKeyFromObject(role), role) })
		rules, err := json.Marshal(role.Rules)
		Expect(err).NotTo(HaveOccurred())
		give := func(ctx context.Context) error {
			return api.Patch(ctx, role, merge(fmt.Sprintf(`{"rules":%s}`, rules)))
		}
		t.answered(func() error { return api.Patch(ctx, role, merge(`{"rules":null}`)) })
		DeferCleanup(func(ctx SpecContext) error { return give(ctx) }, NodeTimeout(suite.Patience()))
		t.checkPlaces()
		t.create(t.graph("g", workers(1)))
		t.says("g", reserved, metav1.ConditionFalse, "QuotaPending", "inactive", "AdmissionChecks ("+t.name+")", "config/kueue-placement")
		Expect(t.running()).To(BeZero())

		By("giving the rights")
		t.answered(func() error { return give(ctx) })
		t.ready("g")
		t.settle()
	}, SpecTimeout(suite.Timeout()))
})

// checks returns the states of the AdmissionChecks of a deployment's only Workload, by name.
func (t *team) checks(name string) map[string]string {
	GinkgoHelper()
	out := map[string]string{}
	for _, w := range t.workloads() {
		for i := range w.Status.AdmissionChecks {
			if w.Labels[render.LabelGraph] == name {
				out[w.Status.AdmissionChecks[i].Name] = w.Status.AdmissionChecks[i].State
			}
		}
	}
	return out
}

// pauseBegun is the time without quota after which a Workload's quota counts as released, not only as requested again.
const pauseBegun = 10 * time.Second

// retried returns an error until the Workload of a deployment, which found no place, has been without quota for pauseBegun.
func (t *team) retried(name string) error {
	GinkgoHelper()
	for _, w := range t.workloads() {
		for _, c := range w.Status.Conditions {
			if w.Labels[render.LabelGraph] == name && c.Type == "QuotaReserved" && c.Status == metav1.ConditionFalse && time.Since(c.LastTransitionTime.Time) > pauseBegun {
				return t.uses(16)
			}
		}
	}
	return fmt.Errorf("the quota of %s is reserved", name)
}
