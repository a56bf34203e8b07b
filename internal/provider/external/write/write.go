// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package write reads and writes objects of other projects. The manager's cache does not contain their kinds, because the cluster may start
// or stop serving them at any time.
package write

import (
	"context"
	"fmt"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/internal/controller/adoption"
	"github.com/trellis-k8s/trellis/internal/controller/leftovers"
	"github.com/trellis-k8s/trellis/internal/provider/external"
	"github.com/trellis-k8s/trellis/internal/render"
)

// Writer writes objects of other projects.
type Writer struct {
	// Client writes.
	Client client.Client
	// Live reads from the API server.
	Live client.Reader
}

// Definition reads a CustomResourceDefinition; nil if it does not exist.
func (w Writer) Definition(ctx context.Context, name string) (*apiextensionsv1.CustomResourceDefinition, error) {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	err := w.Live.Get(ctx, client.ObjectKey{Name: name}, crd)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return crd, err
}

// NamesRefused returns a message if the API server does not serve a CustomResourceDefinition because another definition in the same API
// group already uses one of its names. It returns "" if the names are accepted.
func NamesRefused(crd *apiextensionsv1.CustomResourceDefinition) string {
	for _, c := range crd.Status.Conditions {
		if c.Type == apiextensionsv1.NamesAccepted && c.Status == apiextensionsv1.ConditionFalse {
			return fmt.Sprintf("%s is installed, but the API server does not serve it: %s; take that name out of the other definition of the "+
				"group %s",
				crd.Name, c.Message, crd.Spec.Group)
		}
	}
	return ""
}

// Get reads an object from the API server; nil if it does not exist or its kind is not served.
func (w Writer) Get(ctx context.Context, kind schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	err := w.Live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, object)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s %s: %w", kind.Kind, name, err)
	}
	return object, nil
}

// Orphaned reports whether Trellis made an object and the object no longer has an owner. The object must be read from the API server,
// because caches drop its managed fields.
func Orphaned(object *unstructured.Unstructured) bool {
	return adoption.Orphaned(object) && slices.ContainsFunc(object.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool {
		return e.Manager == render.FieldOwner
	})
}

// Apply creates or updates an object of an owner. have is the existing object; nil for none. Apply adopts an orphan, never takes over an
// object of another owner, and writes nothing if have is up to date. It returns an error if the API server dropped or changed sent fields.
func (w Writer) Apply(ctx context.Context, owner client.Object, want, have *unstructured.Unstructured) error {
	orphaned := have != nil && Orphaned(have)
	if have != nil {
		if !orphaned && !metav1.IsControlledBy(have, owner) {
			return adoption.ConflictOver(want.GetKind(), have, owner.GetName())
		}
		if !orphaned && external.Covers(want, have) {
			return nil
		}
		if orphaned {
			current, err := leftovers.Current(ctx, w.Live, owner)
			if err != nil {
				return err
			}
			if !current {
				return fmt.Errorf("%s %s is not adopted: %s is gone or being deleted", want.GetKind(), want.GetName(), owner.GetName())
			}
		}
		want.SetUID(have.GetUID())
	}
	sent := want.DeepCopy()
	err := w.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(want), client.FieldOwner(render.FieldOwner), client.ForceOwnership)
	if orphaned && apierrors.IsInvalid(err) { // an immutable field differs
		plural, _ := meta.UnsafeGuessKindToResource(sent.GroupVersionKind())
		return fmt.Errorf("%s %s of an earlier owner of this name cannot be adopted: %w; to delete it: kubectl delete -n %s %s/%s",
			sent.GetKind(), sent.GetName(), err, sent.GetNamespace(), plural.GroupResource(), sent.GetName())
	}
	if err != nil {
		return fmt.Errorf("applying %s %s: %w", sent.GetKind(), sent.GetName(), err)
	}
	if at := external.Missing(sent, want); at != "" {
		return fmt.Errorf("applying %s %s: the API server dropped or changed %s", sent.GetKind(), sent.GetName(), at)
	}
	return nil
}

// Delete deletes an object by its UID.
func (w Writer) Delete(ctx context.Context, object *unstructured.Unstructured) error {
	uid := object.GetUID()
	err := w.Client.Delete(ctx, object, client.Preconditions{UID: &uid})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("deleting %s %s: %w", object.GetKind(), object.GetName(), err)
	}
	return nil
}
