// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package dynamographdeployment

import (
	"errors"
	"testing"

	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/internal/render"
)

func TestSameContent(t *testing.T) {
	class := func(name *string, tls bool) *networkingv1.Ingress {
		in := &networkingv1.Ingress{Spec: networkingv1.IngressSpec{IngressClassName: name}}
		if tls {
			in.Spec.TLS = []networkingv1.IngressTLS{{SecretName: "s"}}
		}
		return in
	}
	pool := func(spec map[string]any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	}
	rules := func(verbs ...string) *rbacv1.Role { return &rbacv1.Role{Rules: []rbacv1.PolicyRule{{Verbs: verbs}}} }
	tests := map[string]struct {
		wanted, existing client.Object
		want             bool
	}{
		"an account has no content":        {&corev1.ServiceAccount{}, &corev1.ServiceAccount{Secrets: []corev1.ObjectReference{{Name: "x"}}}, true},
		"a right more":                     {rules("get"), rules("get", "list"), false},
		"the cluster's default class":      {class(nil, false), class(ptr.To("nginx"), false), true},
		"another class":                    {class(ptr.To("a"), false), class(ptr.To("b"), false), false},
		"TLS is wanted no longer":          {class(nil, false), class(nil, true), false},
		"a default was added to the pool":  {pool(map[string]any{"a": int64(1)}), pool(map[string]any{"a": int64(1), "mode": "x"}), true},
		"the pool says otherwise":          {pool(map[string]any{"a": int64(1)}), pool(map[string]any{"a": int64(2)}), false},
		"the pool has one port more":       {pool(map[string]any{"p": []any{"x"}}), pool(map[string]any{"p": []any{"x", "z"}}), false},
		"the pool lacks what is wanted":    {pool(map[string]any{"a": "b"}), pool(nil), false},
		"the configuration has a key more": {&corev1.ConfigMap{Data: map[string]string{"a": "b"}}, &corev1.ConfigMap{Data: map[string]string{"a": "b", "c": "d"}}, false},
	}
	for name, tc := range tests {
		if got := sameContent(tc.wanted, tc.existing); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestNestedLeftovers: extras fail as one error among those of the other children.
func TestNestedLeftovers(t *testing.T) {
	left := &leftover{"x"}
	for _, tc := range []struct {
		failure error
		want    bool
	}{
		{errors.Join(errors.Join(left, left), left), true}, {errors.Join(errors.Join(left, errors.New("no quota")), left), false}, {nil, false}, {errors.New("a"), false},
	} {
		if got := waitsForLeftovers(tc.failure); got != tc.want {
			t.Errorf("%v: %v", tc.failure, got)
		}
	}
}

// A deployment is recreated while the garbage collector is at the Role of the earlier one: the binding, which needs the Role, is left for later,
// and nothing fails.
func TestNothingIsMadeBehindALeftover(t *testing.T) {
	dgd := &nvidiav1beta1.DynamoGraphDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "g", UID: "new"},
		Spec:       nvidiav1beta1.DynamoGraphDeploymentSpec{Components: []nvidiav1beta1.ComponentSpec{{Name: "Worker", Type: "worker"}}},
	}
	wanted, err := render.Resolve(dgd, render.Inputs{Provider: specs.Gates.Name})
	if err != nil {
		t.Fatal(err)
	}
	var objects []client.Object
	for _, object := range wanted.Owned() {
		if role, ok := object.(*rbacv1.Role); ok {
			role = role.DeepCopy()
			role.OwnerReferences = []metav1.OwnerReference{{APIVersion: "nvidia.com/v1alpha1", Kind: "DynamoGraphDeployment", Name: "g", UID: "old", Controller: ptr.To(true)}}
			objects = append(objects, role)
		}
	}
	if len(objects) != 1 {
		t.Fatalf("%d roles", len(objects))
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, nvidiav1beta1.AddToScheme, trellisv1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	builder := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...)
	for _, kind := range childKinds() {
		builder = builder.WithIndex(kind, indexByLabel, labelOf)
	}
	c := builder.Build()
	r := &Reconciler{Client: c, Live: c}
	if err := r.applyExtras(t.Context(), observed{dgd: dgd, prerequisites: prerequisites{access: newAccess()}}, wanted); !waitsForLeftovers(err) {
		t.Errorf("got %v, want nothing but a leftover to wait for", err)
	}
	bindings := &rbacv1.RoleBindingList{}
	if err := c.List(t.Context(), bindings); err != nil || len(bindings.Items) > 0 {
		t.Errorf("%d bindings of a role that is about to go, %v", len(bindings.Items), err)
	}
}

func TestRenewKeepsOwners(t *testing.T) {
	object := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}, OwnerReferences: []metav1.OwnerReference{{UID: "1"}}}}
	renew(object, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"c": "d"}}, Rules: []rbacv1.PolicyRule{{Verbs: []string{"get"}}}})
	if len(object.OwnerReferences) != 1 || len(object.Rules) != 1 || object.Labels["a"] != "b" || object.Labels["c"] != "d" {
		t.Errorf("%+v", object)
	}
}

// TestSSHKeyPair: the two halves belong together, in the form that ssh reads.
func TestSSHKeyPair(t *testing.T) {
	private, public, err := sshKeyPair()
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.ParsePrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	authorized, _, _, _, err := ssh.ParseAuthorizedKey(public)
	if err != nil || string(authorized.Marshal()) != string(signer.PublicKey().Marshal()) {
		t.Errorf("the public key is another's (%v)", err)
	}
}
