// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package quotas runs ResourceQuotas on the API server of a spec.
package quotas

import (
	"context"
	"fmt"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/test/testutil/kubecontrollers"
)

// Count runs the quota controller of Kubernetes until the spec ends.
func Count(server *rest.Config) {
	ginkgo.GinkgoHelper()
	kubecontrollers.Run(server, "resourcequota-controller")
}

// Limit creates the quota "q" in a namespace until the spec ends, and waits until it is enforced. With classes it counts only pods of these
// PriorityClasses.
func Limit(ctx context.Context, c client.Client, namespace string, hard corev1.ResourceList, classes ...string) {
	ginkgo.GinkgoHelper()
	q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "q"}, Spec: corev1.ResourceQuotaSpec{Hard: hard}}
	if len(classes) > 0 {
		q.Spec.ScopeSelector = &corev1.ScopeSelector{MatchExpressions: []corev1.ScopedResourceSelectorRequirement{{
			ScopeName: corev1.ResourceQuotaScopePriorityClass, Operator: corev1.ScopeSelectorOpIn, Values: classes,
		}}}
	}
	if created := apply(ctx, c, q); created {
		ginkgo.DeferCleanup(func(ctx ginkgo.SpecContext) error { return client.IgnoreNotFound(c.Delete(ctx, q)) })
	}
	gomega.Eventually(ctx, func() error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(q), q); err != nil {
			return err
		}
		for name, amount := range hard {
			if of := q.Status.Hard[name]; of.Cmp(amount) != 0 {
				return fmt.Errorf("it is %v", q.Status)
			}
		}
		return nil
	}).Should(gomega.Succeed(), "waiting until the quota is in force")
}

// Enforce creates a quota, or changes its limits, and writes its status as the quota controller does: it is enforced at once. A quota
// controller that Count runs on the same API server for another spec may write the status as well.
func Enforce(ctx context.Context, c client.Client, quota *corev1.ResourceQuota) {
	ginkgo.GinkgoHelper()
	apply(ctx, c, quota)
	before := quota.DeepCopy()
	quota.Status.Hard = quota.Spec.Hard
	if quota.Status.Used == nil {
		quota.Status.Used = corev1.ResourceList{}
		for name := range quota.Spec.Hard {
			quota.Status.Used[name] = resource.MustParse("0")
		}
	}
	gomega.Expect(c.Status().Patch(ctx, quota, client.MergeFrom(before))).To(gomega.Succeed())
}

// apply creates a quota, or changes the limits of the existing one, which it reads into quota.
func apply(ctx context.Context, c client.Client, quota *corev1.ResourceQuota) (created bool) {
	ginkgo.GinkgoHelper()
	hard, before := quota.Spec.Hard, &corev1.ResourceQuota{}
	if err := c.Get(ctx, client.ObjectKeyFromObject(quota), before); err != nil {
		gomega.Expect(client.IgnoreNotFound(err)).To(gomega.Succeed())
		gomega.Expect(c.Create(ctx, quota)).To(gomega.Succeed())
		return true
	}
	before.DeepCopyInto(quota)
	quota.Spec.Hard = hard
	gomega.Expect(c.Patch(ctx, quota, client.MergeFrom(before))).To(gomega.Succeed())
	return false
}

// GPUs returns a limit of the GPUs that pods request.
func GPUs(n string) corev1.ResourceList {
	return corev1.ResourceList{"requests.nvidia.com/gpu": resource.MustParse(n)}
}
