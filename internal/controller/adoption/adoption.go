// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package adoption gives objects without an owner to the object that would recreate them.
//
// An owner that is deleted with --cascade=orphan leaves what it owned. What is created under its name later wants the same objects, whose
// names are taken. As the controllers of Kubernetes do, ours adopt them: objects that carry their labels and names, have no other
// controller and are not being deleted. The owner is read from the API server first, not from the cache: one that is being deleted would
// adopt what the garbage collector has just orphaned.
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

// Conflict is the error for an object that an owner needs and another controller owns. The object is neither changed nor deleted.
type Conflict struct {
	// Object is its kind and name.
	Object string
	// Owner is the kind and the name of its controller; empty for an object without one that may not be adopted.
	Owner string
	// Needs is the owner that needs it.
	Needs string
}

// ConflictOver returns the conflict about an object. The kind is given because a typed object may have none.
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
	// Client writes. Live reads past the cache.
	Client client.Client
	Live   client.Reader
	// Owner as the cache shows it, of this kind.
	Owner client.Object
	Kind  schema.GroupVersionKind
}

// Current asks the API server whether the owner still exists under its UID and is not being deleted. Nothing may be adopted for it
// otherwise.
func (a Adopter) Current(ctx context.Context) (bool, error) {
	return leftovers.Current(ctx, a.Live, a.Owner)
}

// Adopt makes the owner the controller of an object as it was read. One that has changed since, or is gone, is left as it is: the event of
// the change brings the next reconcile. The caller has asked Current.
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

// kindOf is the kind of an object that may have been read without one.
func kindOf(object client.Object) string {
	if kind := object.GetObjectKind().GroupVersionKind().Kind; kind != "" {
		return kind
	}
	return reflect.TypeOf(object).Elem().Name()
}
