// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/internal/cli/version"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

var _ = Describe("kubectl trellis version", func() {
	// The plugin finds the operator by its Deployment, also for a user who may look into its namespace only. Every user gets an answer.
	It("finds the operator by its Deployment, and answers users without rights, too", func(ctx SpecContext) {
		w := newWorld(ctx, "plugin-version")
		labels := map[string]string{"app.kubernetes.io/name": "trellis", "app.kubernetes.io/component": "manager"}
		const namespace = "trellis-system"
		deployment := &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "version-test", Labels: labels},
			Spec: appsv1.DeploymentSpec{
				Replicas: ptr.To(int32(0)), Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Labels: labels},
					Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "manager", Image: "example.com:5000/trellis-manager:v7.8.9"}}},
				},
			},
		}
		none := asJSON[version.Versions](w, 0, "version")
		Expect(none.Problem).To(Equal("the cluster has no Deployment of it"), "a sandbox applies no Deployment")
		Expect(none.Client.GoVersion).NotTo(BeEmpty())
		text, _ := w.kubectlTrellis(0, "version", "--client")
		Expect(text).To(And(HavePrefix("Client:   "), Not(ContainSubstring("Operator"))))
		create := func(o client.Object) {
			w.create(o)
			DeferCleanup(func() { _ = w.c.Delete(context.WithoutCancel(ctx), o) })
		}
		create(deployment)
		text, _ = w.kubectlTrellis(0, "version")
		Expect(text).To(HaveSuffix("\nOperator: v7.8.9 (image example.com:5000/trellis-manager:v7.8.9, namespace trellis-system)\n"))
		create(&rbacv1.Role{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "version-test"},
			Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"apps"}, Resources: []string{"deployments"}, Verbs: []string{"list"}}},
		})
		create(&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "version-test"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "version-test"},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "ann"}},
		})
		w.until("ann sees the operator", func() error {
			ann := asJSON[version.Versions](w, 0, "version", "--as", "ann")
			if diff := cmp.Diff([]version.Operator{{Namespace: namespace, Name: "version-test", Image: "example.com:5000/trellis-manager:v7.8.9", Version: "v7.8.9"}}, ann.Operators); diff != "" {
				return errors.New(diff)
			}
			return nil
		})
		joe := asJSON[version.Versions](w, 0, "version", "--as", "joe")
		Expect(joe.Problem).To(ContainSubstring(`User "joe" cannot list resource "deployments"`), "joe has no rights")
	}, SpecTimeout(suite.Timeout()))
})
