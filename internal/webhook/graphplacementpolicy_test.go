// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"bytes"
	"os"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

var _ = It("Only the operator and cluster admins write the spec of a GraphPlacement", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
	s := newServer(ctx)
	text, err := os.ReadFile(manifestsDir + "graphplacement_policy.yaml")
	Expect(err).NotTo(HaveOccurred())
	for _, document := range bytes.Split(text, []byte("\n---\n")) {
		object := &unstructured.Unstructured{}
		Expect(yaml.Unmarshal(document, object)).To(Succeed())
		Expect(s.admin.Create(ctx, object)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(s.admin.Delete(ctx, object)).To(Succeed()) })
		again := &unstructured.Unstructured{}
		Expect(yaml.Unmarshal(document, again)).To(Succeed())
		applied, err := again.MarshalJSON()
		Expect(err).NotTo(HaveOccurred())
		Expect(s.admin.Patch(ctx, again, client.RawPatch(types.ApplyPatchType, applied), client.FieldOwner("another"))).To(Succeed(),
			"%s, applied by another client without force", again.GetKind())
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "policy-"}}
	Expect(s.admin.Create(ctx, namespace)).To(Succeed())
	all := []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}}
	meta := metav1.ObjectMeta{Namespace: namespace.Name, Name: "owner"}
	Expect(s.admin.Create(ctx, &rbacv1.Role{ObjectMeta: meta, Rules: all})).To(Succeed())
	Expect(s.admin.Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "owner"}},
	})).To(Succeed())
	text, err = os.ReadFile("../../config/rbac/role.yaml")
	Expect(err).NotTo(HaveOccurred())
	operatorRole := &rbacv1.ClusterRole{}
	Expect(yaml.Unmarshal([]byte(strings.Split(string(text), "\n---\n")[0]), operatorRole)).To(Succeed())
	operatorRole.Name = namespace.Name
	Expect(s.admin.Create(ctx, operatorRole)).To(Succeed())
	Expect(s.admin.Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: namespace.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: namespace.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "operator"}},
	})).To(Succeed())
	limited := metav1.ObjectMeta{Namespace: namespace.Name, Name: namespace.Name + "-limited"}
	Expect(s.admin.Create(ctx, &rbacv1.RoleBinding{ // as with the chart's value watchNamespaces
		ObjectMeta: limited, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: namespace.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "limited"}},
	})).To(Succeed())
	Expect(s.admin.Create(ctx, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: limited.Name},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"grove.io"}, Resources: []string{"clustertopologies/status"}, Verbs: []string{"patch"}}},
	})).To(Succeed())
	Expect(s.admin.Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: limited.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: limited.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "limited"}},
	})).To(Succeed())
	scheme := runtime.NewScheme()
	Expect(trellisv1alpha1.AddToScheme(scheme)).To(Succeed())
	as := func(user string) client.Client {
		config := rest.CopyConfig(shared.env.Config)
		config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:authenticated"}}
		c, err := client.New(config, client.Options{Scheme: scheme})
		Expect(err).NotTo(HaveOccurred())
		return c
	}
	owner, operator := as("owner"), as("operator")
	placement := func(name string) *trellisv1alpha1.GraphPlacement {
		return &trellisv1alpha1.GraphPlacement{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: name},
			Spec:       trellisv1alpha1.GraphPlacementSpec{DeploymentUID: "1"},
		}
	}
	merge := func(text string) client.Patch { return client.RawPatch(types.MergePatchType, []byte(text)) }

	By("asking until the API server has read the policy")
	Eventually(func() error { return owner.Create(ctx, placement("forged"), client.DryRunAll) }, suite.Timeout()).
		WithContext(ctx).Should(MatchError(apierrors.IsForbidden, "IsForbidden"))
	written := placement("chat")
	Expect(operator.Create(ctx, written)).To(Succeed())
	Expect(operator.Patch(ctx, written, merge(`{"spec":{"domain":"zone-0"}}`))).To(Succeed())
	Expect(as("limited").Patch(ctx, written, merge(`{"spec":{"domain":"zone-2"}}`))).To(Succeed())
	err = owner.Patch(ctx, written.DeepCopy(), merge(`{"spec":{"domain":"zone-1"}}`))
	Expect(err).To(MatchError(apierrors.IsForbidden, "IsForbidden"))
	Expect(err).To(MatchError(ContainSubstring("only the operator writes spec. To have it written again from the pods, delete")))
	Expect(owner.Patch(ctx, written.DeepCopy(), merge(`{"metadata":{"finalizers":["example.com/kept"]}}`))).To(Succeed())
	Expect(owner.Patch(ctx, written.DeepCopy(), merge(`{"metadata":{"finalizers":null}}`))).To(Succeed())
	Expect(owner.Delete(ctx, written)).To(Succeed())
})
