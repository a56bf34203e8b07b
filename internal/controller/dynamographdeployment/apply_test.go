// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package dynamographdeployment

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
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

// The name of a child is another owner's, which the cache does not show: that is said whatever else a create would be refused for, and only one is tried,
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
