// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package leftovers deletes objects of an earlier owner with the same name.
//
// An owner that is deleted and created again has a new UID. The objects of the first owner keep their names and devices until the garbage
// collector deletes them. The garbage collector may take long, or may never delete them after a gap in its watches. So a controller that
// finds such an object deletes the object itself.
package leftovers

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// Of reports whether the object's controller has this kind and name, but another UID.
func Of(object metav1.Object, kind, name string, uid types.UID) bool {
	owner := metav1.GetControllerOfNoCopy(object)
	return owner != nil && owner.Kind == kind && owner.Name == name && owner.UID != uid
}

// Current reports whether, according to the API server, owner exists with its UID and is not being deleted. If owner has no UID, Current
// reports whether no object with the owner's name exists. A stale cache is not sufficient, because the objects of a successor would be
// mistaken for objects of an earlier owner.
func Current(ctx context.Context, live client.Reader, owner client.Object) (bool, error) {
	now := owner.DeepCopyObject().(client.Object)
	err := live.Get(ctx, client.ObjectKeyFromObject(owner), now)
	if apierrors.IsNotFound(err) {
		return owner.GetUID() == "", nil
	}
	if err != nil {
		return false, fmt.Errorf("reading %s from the API server: %w", owner.GetName(), err)
	}
	return now.GetUID() == owner.GetUID() && now.GetDeletionTimestamp() == nil, nil
}

// parallel is how many objects are deleted in parallel: a scaling group may have left thousands of pods.
const parallel = 16

// DeleteAll deletes objects of earlier owners with this name, once the API server has confirmed that owner is the current owner. It skips
// objects that are being deleted or have changed since they were read.
func DeleteAll[T client.Object](ctx context.Context, c client.Client, live client.Reader, owner client.Object, objects []T) error {
	objects = slices.DeleteFunc(slices.Clone(objects), func(object T) bool { return object.GetDeletionTimestamp() != nil })
	if len(objects) == 0 {
		return nil
	}
	current, err := Current(ctx, live, owner)
	if err != nil || !current {
		return err
	}
	failures := make([]error, len(objects))
	workqueue.ParallelizeUntil(ctx, parallel, len(objects), func(i int) { failures[i] = remove(ctx, c, objects[i]) })
	return errors.Join(failures...)
}

// remove deletes an object, provided the object has not changed since it was read. An object that has lost its owner reference since then,
// for example, stays until the next reconcile.
func remove(ctx context.Context, c client.Client, object client.Object) error {
	log.FromContext(ctx).Info("deleting an object of an earlier owner of this name", "object", fmt.Sprintf("%T", object), "name",
		object.GetName())
	uid, version := object.GetUID(), object.GetResourceVersion()
	err := c.Delete(ctx, object, client.Preconditions{UID: &uid, ResourceVersion: &version},
		client.PropagationPolicy(metav1.DeletePropagationBackground))
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("deleting %T %s of an earlier owner: %w", object, object.GetName(), err)
	}
	return nil
}
