// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/test/testutil/graphs"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// bindings are the subjects of the namespace's RoleBindings, by binding.
func (b *bare) bindings(namespace string) string {
	GinkgoHelper()
	list := &rbacv1.RoleBindingList{}
	Expect(b.c.List(b.ctx, list, client.InNamespace(namespace))).To(Succeed())
	var out []string
	for _, binding := range list.Items {
		var names []string
		for _, s := range binding.Subjects {
			names = append(names, s.Name)
		}
		out = append(out, binding.Name+": "+strings.Join(names, ","))
	}
	return strings.Join(out, "; ")
}

// binds waits until the namespace has these RoleBindings, and the deployment's condition reports it.
func (b *bare) binds(namespace, want, condition, words string) {
	GinkgoHelper()
	b.until("the bindings are as wanted", func() error {
		if got := b.bindings(namespace); got != want {
			return fmt.Errorf("they are %q, want %q", got, want)
		}
		dgd := &nvidiav1alpha1.DynamoGraphDeployment{}
		Expect(b.c.Get(b.ctx, client.ObjectKey{Namespace: namespace, Name: "g"}, dgd)).To(Succeed())
		message := ""
		if c := meta.FindStatusCondition(dgd.Status.Conditions, condition); c != nil {
			message = c.Message
		}
		if words == "" && message != "" || !strings.Contains(message, words) {
			return fmt.Errorf("%s says %q, want %q", condition, message, words)
		}
		return nil
	})
}

var _ = Describe("Accounts and Roles of others", func() {
	It("are bound to no graph and get no rights of one, and what the deployment waits for is reported", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		const own = "g-k8s-service-discovery"
		const planner = "planner-serviceaccount"
		const elsewhere = "elsewhere: " + planner + "; "
		b := newBareWith(ctx, client.New, func(o *Options) { o.retries.Unwatched = 200 * time.Millisecond })
		named := func(namespace, name string) metav1.ObjectMeta {
			return metav1.ObjectMeta{Namespace: namespace, Name: name}
		}
		reads := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get"}}}
		role, account, taken, planners := newNamespace(b.c), newNamespace(b.c), newNamespace(b.c), newNamespace(b.c)
		Expect(b.c.Create(ctx, &rbacv1.Role{ObjectMeta: named(role, own+"-role"), Rules: reads})).To(Succeed())
		Expect(b.c.Create(ctx, &corev1.ServiceAccount{ObjectMeta: named(account, own)})).To(Succeed())
		Expect(b.c.Create(ctx, &corev1.ServiceAccount{ObjectMeta: named(planners, planner)})).To(Succeed())
		bind := func(name, from string) {
			Expect(b.c.Create(ctx, &rbacv1.RoleBinding{
				ObjectMeta: named(planners, name), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "mine"},
				Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: planner, Namespace: from}},
			})).To(Succeed())
		}
		bind("elsewhere", role) // to the account of that name in another namespace
		for _, ns := range []string{role, account, taken, planners} {
			components := graphs.Components{"Worker": graphs.Worker(1, 1, 1, "")}
			if ns == planners {
				components["Planner"] = graphs.Frontend(1)
				components["Planner"].ComponentType = nvidiav1alpha1.ComponentTypePlanner
			}
			Expect(b.c.Create(ctx, deployment(ns, components))).To(Succeed())
		}

		b.binds(role, "", nvidiav1alpha1.ConditionReady, "Role "+own+"-role exists and does not belong to this deployment")
		b.binds(account, "", nvidiav1alpha1.ConditionReady, "ServiceAccount "+own+" exists and does not belong to this deployment")

		By("a Role of ours is bound, and replaced by another owner's")
		b.binds(taken, own+"-binding: "+own, nvidiav1alpha1.ConditionPrerequisitesMet, "")
		b.until("the Role is another owner's", func() error {
			ours := &rbacv1.Role{}
			Expect(client.IgnoreNotFound(b.c.Get(ctx, client.ObjectKey{Namespace: taken, Name: own + "-role"}, ours))).To(Succeed())
			ours.OwnerReferences, ours.Labels = nil, nil
			return b.c.Update(ctx, ours)
		})
		b.binds(taken, "", nvidiav1alpha1.ConditionReady, "Role "+own+"-role exists and does not belong to this deployment")

		By("the account that planners share belongs to another client: reported, until that client binds a Role to it")
		b.binds(planners, elsewhere+own+"-binding: "+own, nvidiav1alpha1.ConditionPrerequisitesMet, "ServiceAccount "+planner+" gets no rights")
		Expect(b.c.Create(ctx, &rbacv1.Role{ObjectMeta: named(planners, "mine"), Rules: reads})).To(Succeed())
		bind("mine", planners)
		b.binds(planners, elsewhere+own+"-binding: "+own+"; mine: "+planner, nvidiav1alpha1.ConditionPrerequisitesMet, "")

		By("deleted: Trellis makes it, and gives it its rights")
		Expect(b.c.Delete(ctx, &corev1.ServiceAccount{ObjectMeta: named(planners, planner)})).To(Succeed())
		b.binds(planners, elsewhere+own+"-binding: "+own+","+planner+"; mine: "+planner+"; "+planner+": "+planner, nvidiav1alpha1.ConditionPrerequisitesMet, "")
	})
})
