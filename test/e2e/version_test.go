// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/internal/cli/version"
	"github.com/trellis-k8s/trellis/test/testutil/tier"
)

// The plugin finds the operator by its Deployment, also for somebody who may look into its namespace only. Nobody is refused an answer.
func TestPluginVersion(t *testing.T) {
	tier.All(t)
	w := newWorld(t, "plugin-version")
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
	if none := asJSON[version.Report](w, 0, "version"); none.Problem != "the cluster has no Deployment of it" || none.Client.GoVersion == "" {
		t.Errorf("a sandbox applies no Deployment, got %+v", none)
	}
	if text, _ := w.kubectlTrellis(0, "version", "--client"); !strings.HasPrefix(text, "Client:   ") || strings.Contains(text, "Operator") {
		t.Errorf("--client says %q", text)
	}
	create := func(o client.Object) {
		w.create(o)
		t.Cleanup(func() { _ = w.c.Delete(context.WithoutCancel(t.Context()), o) })
	}
	create(deployment)
	text, _ := w.kubectlTrellis(0, "version")
	if want := "\nOperator: v7.8.9 (image example.com:5000/trellis-manager:v7.8.9, namespace trellis-system)\n"; !strings.HasSuffix(text, want) {
		t.Errorf("got %q, want the suffix %q", text, want)
	}
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
		ann := asJSON[version.Report](w, 0, "version", "--as", "ann")
		if diff := cmp.Diff([]version.Operator{{Namespace: namespace, Name: "version-test", Image: "example.com:5000/trellis-manager:v7.8.9", Version: "v7.8.9"}}, ann.Operators); diff != "" {
			return errors.New(diff)
		}
		return nil
	})
	if joe := asJSON[version.Report](w, 0, "version", "--as", "joe"); !strings.Contains(joe.Problem, `User "joe" cannot list resource "deployments"`) {
		t.Errorf("joe has no rights, got %+v", joe)
	}
}
