// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package dynamographdeployment

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/render"
)

// errNotMade means that the shared object exists, but Trellis did not make it.
var errNotMade = &notOurs{errors.New("it was not made by Trellis")}

// applyShared makes an object that several deployments of a namespace share. Each deployment is an owner and none is the controller, so the
// garbage collector deletes the object with its last owner. If Trellis did not make the existing object of this name, the deployment uses
// it unchanged, and applyShared returns the error notOurs.
//
// applyShared does not use server-side apply. Each deployment only adds itself to the list of owners, which needs an optimistic lock.
func (r *Reconciler) applyShared(ctx context.Context, dgd *nvidiav1beta1.DynamoGraphDeployment, wanted client.Object) error {
	kind := wanted.GetObjectKind().GroupVersionKind().Kind
	existing := blank(wanted)
	err := r.Client.Get(ctx, client.ObjectKeyFromObject(wanted), existing)
	if err == nil && !isOurs(existing) {
		return errNotMade
	}
	if err == nil && isMember(existing, dgd) && sameShared(wanted, existing) {
		return nil
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading %s %s: %w", kind, wanted.GetName(), err)
	}
	lock := r.lockOf(wanted)
	lock.Lock()
	defer lock.Unlock()
	err = retry.OnError(retry.DefaultBackoff, isRace, func() error { return r.joinShared(ctx, dgd, wanted) })
	if err != nil {
		return fmt.Errorf("sharing %s %s: %w", kind, wanted.GetName(), err)
	}
	return nil
}

// lockOf returns the lock with which deployments join a shared object one by one. Without it, the API server would refuse all but one of
// several concurrent joins. The number of locks is fixed: a lock per name would never be freed. Unrelated objects rarely share a lock.
func (r *Reconciler) lockOf(object client.Object) *sync.Mutex {
	hash := fnv.New32a()
	_, _ = fmt.Fprintf(hash, "%T %s/%s", object, object.GetNamespace(), object.GetName())
	return &r.joins[hash.Sum32()%uint32(len(r.joins))]
}

// isRace reports whether another client has changed or created the object first.
func isRace(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }

// joinShared creates the object, or adds the deployment to the object's owners. It reads the object from the API server.
func (r *Reconciler) joinShared(ctx context.Context, dgd *nvidiav1beta1.DynamoGraphDeployment, wanted client.Object) error {
	existing := blank(wanted)
	err := r.Live.Get(ctx, client.ObjectKeyFromObject(wanted), existing)
	if apierrors.IsNotFound(err) {
		created := wanted.DeepCopyObject().(client.Object)
		created.SetOwnerReferences([]metav1.OwnerReference{membership(dgd)})
		return r.Client.Create(ctx, created, client.FieldOwner(render.FieldOwner))
	}
	if err != nil {
		return err
	}
	if !isOurs(existing) {
		return errNotMade
	}
	if isMember(existing, dgd) && sameShared(wanted, existing) {
		return nil
	}
	changed := existing.DeepCopyObject().(client.Object)
	if !isMember(changed, dgd) {
		changed.SetOwnerReferences(append(changed.GetOwnerReferences(), membership(dgd)))
	}
	renew(changed, wanted)
	return r.Client.Patch(ctx, changed, client.MergeFromWithOptions(existing, client.MergeFromWithOptimisticLock{}),
		client.FieldOwner(render.FieldOwner))
}

func isOurs(object client.Object) bool {
	return object.GetLabels()[render.LabelManagedBy] == render.ManagedBy
}

func sameShared(wanted, existing client.Object) bool {
	return sameContent(wanted, existing) && subset(wanted.GetLabels(), existing.GetLabels()) &&
		subset(wanted.GetAnnotations(), existing.GetAnnotations())
}

func membership(dgd *nvidiav1beta1.DynamoGraphDeployment) metav1.OwnerReference {
	return metav1.OwnerReference{
		APIVersion: nvidiav1beta1.GroupVersion.String(), Kind: "DynamoGraphDeployment", Name: dgd.Name, UID: dgd.UID,
	}
}

func isMember(object client.Object, dgd *nvidiav1beta1.DynamoGraphDeployment) bool {
	return slices.ContainsFunc(object.GetOwnerReferences(), func(o metav1.OwnerReference) bool { return o.UID == dgd.UID })
}

// renew updates the fields that may differ between versions of the operator.
func renew(object, wanted client.Object) {
	labels := object.GetLabels()
	for key, value := range wanted.GetLabels() {
		labels[key] = value
	}
	object.SetLabels(labels)
	switch object := object.(type) {
	case *rbacv1.Role:
		object.Rules = wanted.(*rbacv1.Role).Rules
	case *rbacv1.RoleBinding:
		object.Subjects = wanted.(*rbacv1.RoleBinding).Subjects
	case *corev1.Service:
		object.Spec.Selector, object.Spec.Ports = wanted.(*corev1.Service).Spec.Selector, wanted.(*corev1.Service).Spec.Ports
		object.Annotations = wanted.GetAnnotations()
	}
}
