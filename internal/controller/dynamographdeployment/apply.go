// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package dynamographdeployment

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/csaupgrade"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/controller/adoption"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/strip"
)

// apply creates the wanted children, and updates existing children that differ.
func (r *Reconciler) apply(ctx context.Context, o observed, wanted *render.Graph) error {
	failures := []error{r.applyExtras(ctx, o, wanted)} // first: a pod cannot be created before its account
	for _, sg := range wanted.ScalingGroups() {
		existing := &trellisv1alpha1.ScalingGroup{}
		err := r.applyChild(ctx, o.dgd, sg, existing, func() bool {
			return render.EditOf(existing) == nil && equality.Semantic.DeepEqual(sg.Spec, existing.Spec)
		})
		if err != nil {
			err = &groupFailure{err}
		} else {
			r.reportEdit(o, existing)
		}
		failures = append(failures, err)
	}
	for _, service := range wanted.KubernetesServices() {
		existing := &corev1.Service{}
		failures = append(failures, r.applyChild(ctx, o.dgd, service, existing, func() bool {
			return equality.Semantic.DeepDerivative(service.Spec, existing.Spec)
		}))
	}
	failures = append(failures, r.applyWorkload(ctx, o, wanted))
	return errors.Join(failures...)
}

// groupFailure is an error that keeps a scaling group from being created or applied.
type groupFailure struct{ error }

// Unwrap returns the cause.
func (g *groupFailure) Unwrap() error { return g.error }

// notOurs reports that an object of another owner has the name of a child.
type notOurs struct{ error }

// Unwrap returns the cause.
func (n *notOurs) Unwrap() error { return n.error }

// applyChild creates a missing child, and applies a child whose content, labels or annotations differ from the wanted ones. It adopts an
// orphan with the child's name. It never takes over an object of another owner: if the cache does not show that object, the create fails.
func (r *Reconciler) applyChild(ctx context.Context, dgd *nvidiav1beta1.DynamoGraphDeployment, child, existing client.Object,
	same func() bool) error {
	child.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(dgd,
		nvidiav1beta1.GroupVersion.WithKind("DynamoGraphDeployment"))})
	render.MarkApplied(child)
	created, err := r.findOrCreate(ctx, dgd, child, existing)
	if err != nil || created {
		return err
	}
	kind := child.GetObjectKind().GroupVersionKind().Kind
	if isLeftover(existing, dgd) {
		return r.removeLeftover(ctx, dgd, existing, kind)
	}
	orphaned := isOrphan(existing, dgd)
	if orphaned {
		if may, err := r.mayApplyOrphan(ctx, dgd, child, existing); err != nil || !may {
			return err
		}
		child.SetResourceVersion(existing.GetResourceVersion())
	} else if !metav1.IsControlledBy(existing, dgd) {
		return &notOurs{fmt.Errorf("%w. Rename the deployment or delete that object", adoption.ConflictOver(kind, existing, "this deployment"))}
	}
	if !orphaned && same() && subset(child.GetLabels(), existing.GetLabels()) && subset(child.GetAnnotations(), existing.GetAnnotations()) {
		return nil
	}
	child.SetUID(existing.GetUID())
	if err := r.change(ctx, child); err != nil {
		if orphaned && apierrors.IsInvalid(err) { // an immutable field differs
			return orphanOf(child, err.Error())
		}
		return fmt.Errorf("applying %s %s: %w", kind, child.GetName(), err)
	}
	return nil
}

// findOrCreate reads the object with the child's name into existing, or creates the child.
func (r *Reconciler) findOrCreate(ctx context.Context, dgd *nvidiav1beta1.DynamoGraphDeployment, child,
	existing client.Object) (created bool, err error) {
	key, kind := client.ObjectKeyFromObject(child), child.GetObjectKind().GroupVersionKind().Kind
	err = r.reader(existing).Get(ctx, key, existing)
	if err == nil && strip.LeftOut(existing) { // the cache holds only a part of it
		err = r.Live.Get(ctx, key, existing)
	}
	switch {
	case err == nil:
		r.uncached.remove(dgd, child)
	case apierrors.IsNotFound(err) && r.uncached.has(dgd, child):
		err = r.Live.Get(ctx, key, existing)
	}
	switch {
	case err == nil:
		return false, nil
	case !apierrors.IsNotFound(err):
		return false, fmt.Errorf("reading %s %s: %w", kind, key.Name, err)
	}
	refused := r.create(ctx, dgd, child)
	if refused == nil {
		return true, nil
	}
	// A full quota or a policy refuses a create before the API server reports that the name is taken, so the object is read after a refused
	// create.
	if r.Live.Get(ctx, key, existing) != nil {
		return false, fmt.Errorf("creating %s %s: %w", kind, key.Name, refused)
	}
	r.uncached.add(dgd, child)
	return false, nil
}

// create creates a child. A create costs the API server less than a server-side apply, which would also need a read of the object first.
func (r *Reconciler) create(ctx context.Context, dgd *nvidiav1beta1.DynamoGraphDeployment, child client.Object) error {
	err := r.Client.Create(ctx, child.DeepCopyObject().(client.Object), client.FieldOwner(render.FieldOwner))
	if err == nil {
		r.uncached.add(dgd, child)
	}
	return err
}

// change updates a child by server-side apply, which keeps the fields of other writers and removes fields that are no longer wanted.
func (r *Reconciler) change(ctx context.Context, child client.Object) error {
	if err := retry.RetryOnConflict(retry.DefaultBackoff, func() error { return r.ownAsApplied(ctx, child) }); err != nil {
		return err
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(child)
	if err != nil {
		return err
	}
	delete(content, "status")
	return r.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(&unstructured.Unstructured{Object: content}),
		client.FieldOwner(render.FieldOwner), client.ForceOwnership)
}

// ownAsApplied converts the ownership of fields that the operator set by a create into ownership by server-side apply. A server-side apply
// removes only fields that were set by server-side apply.
func (r *Reconciler) ownAsApplied(ctx context.Context, child client.Object) error {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(child.GetObjectKind().GroupVersionKind())
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(child), object); err != nil { // the cache holds no managed fields
		return err
	}
	if object.GetUID() != child.GetUID() || child.GetResourceVersion() != "" && child.GetResourceVersion() != object.GetResourceVersion() {
		return nil // it is another object now, or a changed orphan: the apply is refused
	}
	patch, err := csaupgrade.UpgradeManagedFieldsPatch(object, sets.New(render.FieldOwner), render.FieldOwner)
	if err != nil || patch == nil {
		return err
	}
	err = r.Client.Patch(ctx, object, client.RawPatch(types.JSONPatchType, patch), client.FieldOwner(render.FieldOwner))
	if err == nil && child.GetResourceVersion() != "" {
		child.SetResourceVersion(object.GetResourceVersion())
	}
	return err
}

// reader returns the cache, or the API server for kinds that a cluster may not serve.
func (r *Reconciler) reader(object client.Object) client.Reader {
	if _, foreign := object.(*unstructured.Unstructured); foreign {
		return r.Live
	}
	return r.Client
}

func subset(part, whole map[string]string) bool {
	for k, v := range part {
		if have, ok := whole[k]; !ok || have != v {
			return false
		}
	}
	return true
}
