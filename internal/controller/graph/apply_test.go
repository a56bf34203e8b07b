// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/graph"
	"github.com/trellis-k8s/trellis/test/testutil/apiserver"
)

// lagging is a client whose cache shows nothing yet.
type lagging struct{ client.Client }

// counting counts creates.
type counting struct {
	client.Client
	creates *int
}

// Create implements client.Writer.
func (c counting) Create(ctx context.Context, object client.Object, options ...client.CreateOption) error {
	*c.creates++
	return c.Client.Create(ctx, object, options...)
}

// Get implements client.Reader.
func (lagging) Get(_ context.Context, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
}

// A child is created without a look, applied when it differs, be it in a label or annotation that is wanted no longer, and left alone when it is
// somebody else's; on a real API server, which keeps account of who owns which field.
func TestApplyChild(t *testing.T) {
	api := apiserver.Start(t, &envtest.Environment{})
	dgd := &nvidiav1beta1.DynamoGraphDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "llm", UID: "1b9c0b4e-0b1a-4e0e-9f0a-0d8f0a7f0001"}}
	child := func(name string, port int32, metadata map[string]string) *corev1.Service {
		return &corev1.Service{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: metadata, Annotations: metadata},
			Spec:       corev1.ServiceSpec{Selector: map[string]string{"a": "b"}, Ports: []corev1.ServicePort{{Name: "http", Port: port, Protocol: corev1.ProtocolTCP}}},
		}
	}
	read := func(name string) *corev1.Service {
		t.Helper()
		service := &corev1.Service{}
		if err := api.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: name}, service); err != nil {
			t.Fatal(err)
		}
		return service
	}
	apply := func(c client.Client, service *corev1.Service) error {
		existing := &corev1.Service{}
		return (&Reconciler{Client: c, Live: api}).applyChild(t.Context(), dgd, service, existing, func() bool {
			return len(existing.Spec.Ports) == 1 && existing.Spec.Ports[0].Port == service.Spec.Ports[0].Port
		})
	}
	if err := apply(api, child("llm", 80, map[string]string{"ours": "1", "dropped": "1"})); err != nil {
		t.Fatal(err)
	}
	theirs := read("llm")
	theirs.Annotations["theirs"] = "1"
	if err := api.Update(t.Context(), theirs, client.FieldOwner("admin")); err != nil {
		t.Fatal(err)
	}
	before := read("llm").ResourceVersion
	for _, c := range []client.Client{api, lagging{api}} { // the same content, seen in the cache and past it
		if err := apply(c, child("llm", 80, map[string]string{"ours": "1", "dropped": "1"})); err != nil || read("llm").ResourceVersion != before {
			t.Errorf("a child that is as wanted was written, or failed: %v", err)
		}
	}
	for i, c := range []client.Client{api, lagging{api}} { // what was created, and what was applied before
		wanted := map[string]string{"ours": "1"}
		if err := apply(c, child("llm", int32(80+i), wanted)); err != nil || len(wanted) != 1 {
			t.Fatalf("%v, and wanted are %v", err, wanted)
		}
		got := read("llm")
		delete(got.Annotations, graph.AnnotationApplied)
		if !maps.Equal(got.Labels, wanted) || !maps.Equal(got.Annotations, map[string]string{"ours": "1", "theirs": "1"}) {
			t.Errorf("labels %v and annotations %v", got.Labels, got.Annotations)
		}
		if len(got.Spec.Ports) != 1 || got.Spec.Ports[0].Port != int32(80+i) {
			t.Errorf("ports %v", got.Spec.Ports)
		}
		if slices.ContainsFunc(got.ManagedFields, func(e metav1.ManagedFieldsEntry) bool {
			return e.Manager == graph.FieldOwner && e.Operation != metav1.ManagedFieldsOperationApply
		}) {
			t.Errorf("managed fields %v", got.ManagedFields)
		}
	}
	if err := apply(api, child("llm", 81, nil)); err != nil || len(read("llm").Labels) != 0 || len(read("llm").Annotations) != 2 {
		t.Errorf("none are wanted: labels %v, annotations %v, %v", read("llm").Labels, read("llm").Annotations, err)
	}
	former := read("llm")
	delete(former.Annotations, graph.AnnotationApplied)
	if err := api.Update(t.Context(), former, client.FieldOwner("admin")); err != nil {
		t.Fatal(err)
	}
	if err := apply(api, child("llm", 81, nil)); err != nil || read("llm").Annotations[graph.AnnotationApplied] == "" {
		t.Errorf("a child made by a former version was not applied: %v", err)
	}
	if err := api.Create(t.Context(), child("somebodys", 80, nil)); err != nil {
		t.Fatal(err)
	}
	before = read("somebodys").ResourceVersion
	for _, c := range []client.Client{api, lagging{api}} {
		if err := apply(c, child("somebodys", 81, nil)); !errors.As(err, new(*notOurs)) || read("somebodys").ResourceVersion != before {
			t.Errorf("an object of somebody else: %v", err)
		}
	}
}

// A child that was created is not created again before the cache shows it, but when it was deleted since.
func TestChildIsCreatedOnce(t *testing.T) {
	api, creates := fake.NewClientBuilder().Build(), 0
	dgd := &nvidiav1beta1.DynamoGraphDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "llm", UID: "1"}}
	service := func() *corev1.Service {
		return &corev1.Service{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}, ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "llm"}}
	}
	r := &Reconciler{Client: lagging{counting{api, &creates}}, Live: api}
	apply := func(want int) {
		t.Helper()
		if err := r.applyChild(t.Context(), dgd, service(), &corev1.Service{}, func() bool { return true }); err != nil || creates != want {
			t.Errorf("%d creates, want %d: %v", creates, want, err)
		}
	}
	apply(1)
	apply(1)
	if err := api.Delete(t.Context(), service()); err != nil {
		t.Fatal(err)
	}
	apply(2)
	r.Client = counting{api, &creates}
	apply(2)
	if len(r.uncached.of) != 0 {
		t.Errorf("remembered although the cache shows it: %v", r.uncached.of)
	}
	r.uncached.add(dgd, service())
	if r.uncached.forget(client.ObjectKeyFromObject(dgd)); len(r.uncached.of) != 0 {
		t.Errorf("remembered although the deployment is gone: %v", r.uncached.of)
	}
}

// The name of a child is somebody else's, which the cache does not show: that is said whatever else a create would be refused for, and only one is tried,
// since each is charged to the namespace's quota.
func TestOneCreateOfATakenName(t *testing.T) {
	dgd := &nvidiav1beta1.DynamoGraphDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "llm", UID: "1"}}
	account := func() *corev1.ServiceAccount {
		return &corev1.ServiceAccount{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"}, ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "llm"}}
	}
	for _, full := range []bool{false, true} {
		creates := 0
		api := fake.NewClientBuilder().WithObjects(account()).Build()
		refusing := interceptor.NewClient(api, interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
				creates++
				if full {
					return apierrors.NewForbidden(schema.GroupResource{}, o.GetName(), errors.New("exceeded quota"))
				}
				return c.Create(ctx, o, options...)
			},
		})
		r := &Reconciler{Client: lagging{refusing}, Live: api}
		apply := func() error {
			return r.applyChild(t.Context(), dgd, account(), &corev1.ServiceAccount{}, func() bool { return true })
		}
		for range 3 {
			if err := apply(); !errors.As(err, new(*notOurs)) || creates != 1 {
				t.Errorf("quota full %t: %d creates and %v, want one and that it is somebody else's", full, creates, err)
			}
		}
		if err := api.Delete(t.Context(), account()); err != nil {
			t.Fatal(err)
		}
		if err := apply(); (err == nil) == full || creates != 2 {
			t.Errorf("quota full %t: %d creates and %v after it was deleted", full, creates, err)
		}
	}
}

// A deployment that is recreated before anybody sees that it was gone begins anew.
func TestUncachedOfARecreatedDeployment(t *testing.T) {
	u := &uncached{}
	account := &corev1.ServiceAccount{TypeMeta: metav1.TypeMeta{Kind: "ServiceAccount"}, ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}}
	role := &corev1.ServiceAccount{TypeMeta: metav1.TypeMeta{Kind: "Role"}, ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}}
	was := &nvidiav1beta1.DynamoGraphDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "g", UID: "1"}}
	is := &nvidiav1beta1.DynamoGraphDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "g", UID: "2"}}
	u.add(was, account)
	if u.has(is, account) {
		t.Error("the account of the deployment before is taken for this one's")
	}
	u.add(is, role)
	if u.remove(is, role); len(u.of) > 0 {
		t.Errorf("kept %v", u.of)
	}
}
