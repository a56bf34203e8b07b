// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package adoption makes an owner the controller of existing objects that have no controller and have the names of objects that the owner
// would create.
//
// Deleting an owner with --cascade=orphan leaves its objects behind. A later owner with the same name needs objects with the same names.
// Like the controllers of Kubernetes, the controllers of Trellis adopt such objects if they have the expected labels and names, have no
// controller and are not being deleted. The owner is first read from the API server, because with a stale cache an owner that is being
// deleted would adopt the objects that the garbage collector has just orphaned.
package adoption

import (
	"context"
	"fmt"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/internal/controller/leftovers"
	"github.com/trellis-k8s/trellis/internal/render"
)

// Orphaned reports whether object has no controller and is not being deleted.
func Orphaned(object metav1.Object) bool {
	return metav1.GetControllerOfNoCopy(object) == nil && object.GetDeletionTimestamp() == nil
}

// Conflict reports that an owner needs an object which has another controller or may not be adopted. The object stays as it is.
type Conflict struct {
	// Object is the kind and name of the object.
	Object string
	// Owner is the kind and name of the object's controller; empty if the object has no controller but may not be adopted.
	Owner string
	// Needs describes the owner that needs the object.
	Needs string
}

// ConflictOver returns the conflict about an object. The kind is an argument because the TypeMeta of a typed object may be empty.
func ConflictOver(kind string, object metav1.Object, needs string) *Conflict {
	c := &Conflict{Object: kind + " " + object.GetName(), Needs: needs}
	if owner := metav1.GetControllerOfNoCopy(object); owner != nil {
		c.Owner = owner.Kind + " " + owner.Name
	}
	return c
}

// Error implements error.
func (c *Conflict) Error() string {
	owner := "it has no controller"
	if c.Owner != "" {
		owner = "its controller is " + c.Owner
	}
	return fmt.Sprintf("%s exists and does not belong to %s: %s; it is left alone", c.Object, c.Needs, owner)
}

// Adopter makes one owner the controller of objects.
type Adopter struct {
	// Client writes objects. Live reads from the API server, past the cache.
	Client client.Client
	Live   client.Reader
	// Owner is the owner as read from the cache. Kind is its GroupVersionKind.
	Owner client.Object
	Kind  schema.GroupVersionKind
}

// Current reports whether, according to the API server, the owner still exists with its UID and is not being deleted. Otherwise nothing may
// be adopted for the owner.
func (a Adopter) Current(ctx context.Context) (bool, error) {
	return leftovers.Current(ctx, a.Live, a.Owner)
}

// Adopt makes the owner the controller of an object, provided the object has not changed since it was read. If it has changed, the event of
// that change triggers the next reconcile. The caller must check Current first.
func (a Adopter) Adopt(ctx context.Context, object client.Object) error {
	adopted := object.DeepCopyObject().(client.Object)
	adopted.SetOwnerReferences(append(adopted.GetOwnerReferences(), *metav1.NewControllerRef(a.Owner, a.Kind)))
	patch := client.MergeFromWithOptions(object, client.MergeFromWithOptimisticLock{})
	err := a.Client.Patch(ctx, adopted, patch, client.FieldOwner(render.FieldOwner))
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("adopting %s %s: %w", kindOf(object), object.GetName(), err)
	}
	return nil
}

// kindOf returns the kind of an object: from its TypeMeta, or from its Go type if the TypeMeta is empty.
func kindOf(object client.Object) string {
	if kind := object.GetObjectKind().GroupVersionKind().Kind; kind != "" {
		return kind
	}
	return reflect.TypeOf(object).Elem().Name()
}
