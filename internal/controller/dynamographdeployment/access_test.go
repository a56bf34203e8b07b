// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package dynamographdeployment

import (
	"context"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/internal/render"
)

// onlyOurs shows what the operator's cache holds of accounts, Roles and bindings: those with its label.
type onlyOurs struct{ client.Client }

// Get implements client.Reader.
func (o onlyOurs) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	if err := o.Client.Get(ctx, key, object, options...); err != nil {
		return err
	}
	if !isOurs(object) {
		return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
	}
	return nil
}

// bound is a deployment with an endpoint picker and what was made for it, in a store that refuses creates while told to.
type bound struct {
	t       *testing.T
	store   client.Client
	r       *Reconciler
	dgd     *nvidiav1beta1.DynamoGraphDeployment
	refused func(client.Object) bool
}

func newBound(t *testing.T) *bound {
	b := &bound{t: t, refused: func(client.Object) bool { return false }, dgd: &nvidiav1beta1.DynamoGraphDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "g", UID: "1"},
		Spec: nvidiav1beta1.DynamoGraphDeploymentSpec{Components: []nvidiav1beta1.ComponentSpec{
			{Name: "Worker", Type: "worker"},
			{Name: "Picker", Type: nvidiav1beta1.ComponentTypeEPP, EPPConfig: &nvidiav1beta1.EPPConfig{
				Config: &nvidiav1beta1.FreeObject{RawExtension: runtime.RawExtension{Raw: []byte(`{"a":1}`)}},
			}},
		}},
	}}
	builder := fake.NewClientBuilder()
	for _, kind := range childKinds() {
		if _, ok := kind.(*trellisv1alpha1.ScalingGroup); !ok {
			builder = builder.WithIndex(kind, indexByLabel, labelOf)
		}
	}
	b.store = builder.WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
			if b.refused(o) {
				return apierrors.NewForbidden(schema.GroupResource{}, o.GetName(), errors.New("exceeded quota"))
			}
			return c.Create(ctx, o, options...)
		},
	}).Build()
	b.r = &Reconciler{Client: onlyOurs{b.store}, Live: b.store}
	return b
}

// look is the first half of a reconcile, apply the second.
func (b *bound) look() (observed, *render.Graph) {
	b.t.Helper()
	wanted, err := render.Resolve(b.dgd, render.Inputs{Provider: specs.Gates.Name})
	if err != nil {
		b.t.Fatal(err)
	}
	o := observed{dgd: b.dgd, prerequisites: prerequisites{noAPI: map[string]bool{"InferencePool": true}}}
	if o.prerequisites.access, err = b.r.lookForAccess(b.t.Context(), b.dgd, wanted); err != nil {
		b.t.Fatal(err)
	}
	return o, wanted
}

func (b *bound) apply() error {
	b.t.Helper()
	o, wanted := b.look()
	return b.r.applyExtras(b.t.Context(), o, wanted)
}

// accounts are the names of the ServiceAccounts that are bound to a Role.
func (b *bound) accounts() map[string]bool {
	b.t.Helper()
	list, out := &rbacv1.RoleBindingList{}, map[string]bool{}
	if err := b.store.List(b.t.Context(), list); err != nil {
		b.t.Fatal(err)
	}
	for i := range list.Items {
		for _, s := range list.Items[i].Subjects {
			out[s.Name] = true
		}
	}
	return out
}

// replace an object of ours by another owner's of that name.
func (b *bound) replace(object client.Object) {
	b.t.Helper()
	theirs := blank(object)
	theirs.SetNamespace(object.GetNamespace())
	theirs.SetName(object.GetName())
	if err := errors.Join(client.IgnoreNotFound(b.store.Delete(b.t.Context(), theirs)), b.store.Create(b.t.Context(), theirs)); err != nil {
		b.t.Fatal(err)
	}
}

// first of the objects that has the type.
func first[T client.Object](b *bound, objects []render.Object) T {
	b.t.Helper()
	for _, object := range objects {
		if out, ok := object.(T); ok {
			return out
		}
	}
	b.t.Fatalf("no %T among %v", *new(T), objects)
	panic("unreachable")
}

// A quota refuses an account or a Role before the API server checks whether another client has one of that name: no binding is made. What needs neither
// is made all the same.
func TestNothingIsBoundThatIsRefused(t *testing.T) {
	for name, refused := range map[string]func(client.Object) bool{
		"accounts": func(o client.Object) bool { _, ok := o.(*corev1.ServiceAccount); return ok },
		"roles":    func(o client.Object) bool { _, ok := o.(*rbacv1.Role); return ok },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBound(t)
			b.refused = refused
			if err := b.apply(); err == nil {
				t.Error("the refusal is not reported")
			}
			if got := b.accounts(); len(got) > 0 {
				t.Errorf("bound %v", got)
			}
			_, wanted := b.look()
			config := first[*corev1.ConfigMap](b, wanted.Owned())
			if err := b.store.Get(t.Context(), client.ObjectKeyFromObject(config), &corev1.ConfigMap{}); err != nil {
				t.Errorf("the endpoint picker's configuration is not made: %v", err)
			}
			b.refused = func(client.Object) bool { return false }
			if err := b.apply(); err != nil || len(b.accounts()) != 2 {
				t.Errorf("when it is allowed again: bound %v, %v", b.accounts(), err)
			}
		})
	}
}

// An account or a Role that another client puts in the place of ours loses its binding, also while creates are refused. A binding of what is ours stays.
func TestBindingEndsWithItsAccountOrRole(t *testing.T) {
	for _, full := range []bool{false, true} {
		for name, replaced := range map[string]func(*bound, *render.Graph) client.Object{
			"account": func(b *bound, g *render.Graph) client.Object { return first[*corev1.ServiceAccount](b, g.Owned()) },
			"role":    func(b *bound, g *render.Graph) client.Object { return first[*rbacv1.Role](b, g.Owned()) },
		} {
			t.Run(fmt.Sprintf("%s, creates refused %t", name, full), func(t *testing.T) {
				b := newBound(t)
				if err := errors.Join(b.apply(), b.apply()); err != nil {
					t.Fatal(err)
				}
				_, wanted := b.look()
				account := first[*corev1.ServiceAccount](b, wanted.Owned()).Name
				if got := b.accounts(); !got[account] || len(got) != 2 {
					t.Fatalf("bound %v, want %s and the endpoint picker's", got, account)
				}
				b.replace(replaced(b, wanted))
				b.refused = func(client.Object) bool { return full }
				for range 2 {
					if err := b.apply(); !errors.As(err, new(*notOurs)) {
						t.Errorf("got %v, want that it is somebody else's", err)
					}
					if got := b.accounts(); got[account] || len(got) != 1 {
						t.Errorf("bound %v, want only the endpoint picker's", got)
					}
				}
			})
		}
	}
}

// Someone else makes the account of all endpoint pickers between the look at it and its create: it is not bound, and evaluated again.
func TestSharedAccountThatSomebodyElseMakesFirst(t *testing.T) {
	b := newBound(t)
	o, wanted := b.look()
	account := first[*corev1.ServiceAccount](b, wanted.Shared())
	b.replace(account)
	if err := b.r.applyExtras(t.Context(), o, wanted); err != nil {
		t.Errorf("an account of somebody else is used as it is, got %v", err)
	}
	if got := b.accounts(); got[account.Name] || len(got) != 1 {
		t.Errorf("bound %v", got)
	}
	if !o.prerequisites.access.any() {
		t.Error("it is not looked at again")
	}
}
