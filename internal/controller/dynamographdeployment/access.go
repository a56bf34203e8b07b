// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package dynamographdeployment

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/render"
)

// access is which of the graph's accounts and roles exist and were made by another client. No such Role is bound, and no such account is
// given a Role: otherwise a user who may create objects in a namespace would have the operator grant rights.
type access struct {
	accounts, roles map[string]origin
	// missing reports which accounts get no rights, one sentence each, where no one else has bound a Role to them.
	missing []string
}

// origin of an account or a Role. The zero value is Trellis.
type origin int

const (
	somebodyElse origin = iota + 1
	// unknown: it could not be made or brought up to date. A binding that is there stays as it is, and none is made.
	unknown
)

func newAccess() access { return access{accounts: map[string]origin{}, roles: map[string]origin{}} }

// lookForAccess reads the graph's accounts and roles. The cache holds those that Trellis made; others are seen past it only. Of the
// graph's own ones that the cache lacks, applyExtras finds out when it creates them.
func (r *Reconciler) lookForAccess(ctx context.Context, dgd *nvidiav1beta1.DynamoGraphDeployment, wanted *render.Graph) (access, error) {
	a := newAccess()
	own := func(o client.Object) bool {
		return metav1.IsControlledBy(o, dgd) || isLeftover(o, dgd) || isOrphan(o, dgd)
	}
	for _, set := range []struct {
		objects []render.Object
		ours    func(client.Object) bool
		live    bool
	}{{wanted.Owned(), own, false}, {wanted.Shared(), isOurs, true}} {
		for _, object := range set.objects {
			if a.origins(object) == nil {
				continue
			}
			foreign, err := r.isForeign(ctx, object, set.ours, set.live)
			if err != nil {
				return a, err
			}
			if foreign {
				a.set(object, somebodyElse)
			}
		}
	}
	return a, r.addMissing(ctx, &a, wanted)
}

// origins is the map for objects of this kind, nil when there is none.
func (a *access) origins(object client.Object) map[string]origin {
	switch object.(type) {
	case *corev1.ServiceAccount:
		return a.accounts
	case *rbacv1.Role:
		return a.roles
	}
	return nil
}

func (a *access) set(object client.Object, from origin) {
	a.origins(object)[object.GetName()] = from
}

// isForeign reports whether an object of this kind and name exists and is not ours; live: also one that the cache lacks.
func (r *Reconciler) isForeign(ctx context.Context, wanted client.Object, ours func(client.Object) bool, live bool) (bool, error) {
	existing, key := blank(wanted), client.ObjectKeyFromObject(wanted)
	err := r.Client.Get(ctx, key, existing)
	if apierrors.IsNotFound(err) && live {
		err = r.Live.Get(ctx, key, existing)
	}
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading %T %s: %w", wanted, wanted.GetName(), err)
	}
	return !ours(existing), nil
}

// addMissing reports which bindings of shared accounts are not made, unless another client made one. An account or Role of the graph that
// another client made is reported in Ready.
func (r *Reconciler) addMissing(ctx context.Context, a *access, wanted *render.Graph) error {
	for _, object := range wanted.Shared() {
		binding, ok := object.(*rbacv1.RoleBinding)
		if !ok || a.bindable(binding) != nil {
			continue
		}
		bindings := &rbacv1.RoleBindingList{}
		if err := r.Live.List(ctx, bindings, client.InNamespace(binding.Namespace)); err != nil {
			return fmt.Errorf("listing RoleBindings: %w", err)
		}
		account := binding.Subjects[0]
		bound := slices.ContainsFunc(bindings.Items, func(b rbacv1.RoleBinding) bool {
			return !isOurs(&b) && slices.ContainsFunc(b.Subjects, func(s rbacv1.Subject) bool {
				return s.Kind == account.Kind && s.Namespace == account.Namespace && s.Name == account.Name
			})
		})
		if !bound {
			a.missing = append(a.missing, fmt.Sprintf("ServiceAccount %s gets no rights, because it or Role %s was not created by Trellis; bind "+
				"a Role to it, or delete both",
				account.Name, binding.RoleRef.Name))
		}
	}
	return nil
}

// note what applying an account or a Role came to.
func (a *access) note(object client.Object, err error) {
	switch {
	case err == nil || a.origins(object) == nil:
	case errors.As(err, new(*notOurs)):
		a.set(object, somebodyElse)
	default:
		a.set(object, unknown)
	}
}

// isUncertain reports whether the object is a binding, and that it is not known who made its Role or one of its accounts.
func (a *access) isUncertain(object client.Object) bool {
	binding, ok := object.(*rbacv1.RoleBinding)
	return ok && (a.roles[binding.RoleRef.Name] == unknown ||
		slices.ContainsFunc(binding.Subjects, func(s rbacv1.Subject) bool { return a.accounts[s.Name] == unknown }))
}

// bindable is the binding without accounts that are not ours; nil when none is left, or its Role is not ours.
func (a *access) bindable(binding *rbacv1.RoleBinding) *rbacv1.RoleBinding {
	if a.roles[binding.RoleRef.Name] == somebodyElse {
		return nil
	}
	out := binding.DeepCopy()
	out.Subjects = slices.DeleteFunc(out.Subjects, func(s rbacv1.Subject) bool { return a.accounts[s.Name] == somebodyElse })
	if len(out.Subjects) == 0 {
		return nil
	}
	return out
}

// any reports whether something is not ours. No event comes when it goes.
func (a *access) any() bool { return len(a.accounts)+len(a.roles) > 0 }

// unshare deletes a binding of ours that nothing may be bound by any more.
func (r *Reconciler) unshare(ctx context.Context, binding *rbacv1.RoleBinding) error {
	existing := &rbacv1.RoleBinding{}
	if err := r.Client.Get(ctx, client.ObjectKeyFromObject(binding), existing); err != nil || !isOurs(existing) {
		return client.IgnoreNotFound(err)
	}
	err := r.Client.Delete(ctx, existing, client.Preconditions{UID: &existing.UID})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("deleting RoleBinding %s: %w", binding.Name, err)
	}
	return nil
}
