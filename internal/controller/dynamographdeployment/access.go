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
	"github.com/trellis-k8s/trellis/internal/listing"
	"github.com/trellis-k8s/trellis/internal/render"
)

// access records which of the graph's ServiceAccounts and Roles are foreign, that is, not created by Trellis, or of unknown origin. The
// operator binds no foreign Role and binds no Role to a foreign ServiceAccount: otherwise a user who may create objects in a namespace
// could make the operator grant rights.
type access struct {
	accounts, roles map[string]origin
	// missing has one sentence for each ServiceAccount that gets no rights from Trellis and that no other client has bound to a Role.
	missing []string
}

// origin identifies who created a ServiceAccount or a Role. The zero value is Trellis.
type origin int

const (
	somebodyElse origin = iota + 1
	// unknown: the object could not be created or updated. Its existing bindings stay as they are, and no new ones are created.
	unknown
)

func newAccess() access { return access{accounts: map[string]origin{}, roles: map[string]origin{}} }

// lookForAccess reads the graph's ServiceAccounts and Roles. The cache has only objects that Trellis has created, so shared objects of
// other clients are read from the API server. If another client's object has the name of one of the graph's own objects, applyExtras
// detects it at the create.
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

// origins returns the map of origins for the object's kind; nil for kinds other than ServiceAccount and Role.
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

// isForeign reports whether an object of this kind and name exists that Trellis did not create. live: an object that the cache does not
// show is read from the API server.
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

// addMissing records the shared ServiceAccounts that neither Trellis nor another client binds to a Role. It skips the graph's own
// ServiceAccounts and Roles: if another client has created one of them, the condition Ready reports it.
func (r *Reconciler) addMissing(ctx context.Context, a *access, wanted *render.Graph) error {
	for _, object := range wanted.Shared() {
		binding, ok := object.(*rbacv1.RoleBinding)
		if !ok || a.bindable(binding) != nil {
			continue
		}
		account, bound := binding.Subjects[0], false
		items := func(l *rbacv1.RoleBindingList) []rbacv1.RoleBinding { return l.Items }
		err := listing.Each(ctx, r.Live, &rbacv1.RoleBindingList{}, items, func(b *rbacv1.RoleBinding) error {
			bound = bound || !isOurs(b) && slices.ContainsFunc(b.Subjects, func(s rbacv1.Subject) bool {
				return s.Kind == account.Kind && s.Namespace == account.Namespace && s.Name == account.Name
			})
			return nil
		}, client.InNamespace(binding.Namespace))
		if err != nil {
			return fmt.Errorf("listing RoleBindings: %w", err)
		}
		if !bound {
			a.missing = append(a.missing, fmt.Sprintf("ServiceAccount %s gets no rights, because it or Role %s was not created by Trellis; bind "+
				"a Role to it, or delete both",
				account.Name, binding.RoleRef.Name))
		}
	}
	return nil
}

// note records the origin of a ServiceAccount or a Role, from the result of applying it.
func (a *access) note(object client.Object, err error) {
	switch {
	case err == nil || a.origins(object) == nil:
	case errors.As(err, new(*notOurs)):
		a.set(object, somebodyElse)
	default:
		a.set(object, unknown)
	}
}

// isUncertain reports whether the object is a binding with a Role or a ServiceAccount of unknown origin.
func (a *access) isUncertain(object client.Object) bool {
	binding, ok := object.(*rbacv1.RoleBinding)
	return ok && (a.roles[binding.RoleRef.Name] == unknown ||
		slices.ContainsFunc(binding.Subjects, func(s rbacv1.Subject) bool { return a.accounts[s.Name] == unknown }))
}

// bindable returns the binding without foreign ServiceAccounts; nil when none is left, or the Role is foreign.
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

// any reports whether any ServiceAccount or Role is foreign or of unknown origin. The deletion of such an object triggers no event, so the
// deployment is reconciled periodically.
func (a *access) any() bool { return len(a.accounts)+len(a.roles) > 0 }

// unshare deletes a binding of Trellis that is not bindable any more.
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
