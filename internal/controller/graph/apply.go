// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package graph

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
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/graph"
)

// apply brings every child to what is wanted. Children that are right already are not written.
func (r *Reconciler) apply(ctx context.Context, o observed, wanted *graph.Graph) error {
	failures := []error{r.applyExtras(ctx, o, wanted)} // first: a pod cannot be created before its account
	for _, sg := range wanted.ScalingGroups() {
		existing := &trellisv1alpha1.ScalingGroup{}
		failures = append(failures, r.applyChild(ctx, o.dgd, sg, existing, func() bool {
			return equality.Semantic.DeepEqual(sg.Spec, existing.Spec)
		}))
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

// applyChild writes child by server-side apply when it is absent or differs. It never takes over an object of another owner.
func (r *Reconciler) applyChild(ctx context.Context, dgd *nvidiav1beta1.DynamoGraphDeployment, child, existing client.Object, same func() bool) error {
	key := client.ObjectKeyFromObject(child)
	kind := child.GetObjectKind().GroupVersionKind().Kind
	err := r.reader(existing).Get(ctx, key, existing)
	if apierrors.IsNotFound(err) {
		err = r.Live.Get(ctx, key, existing) // the cache may lag behind
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading %s %s: %w", kind, key.Name, err)
	}
	if err == nil {
		if isLeftover(existing, dgd) {
			return r.removeLeftover(ctx, dgd, existing, kind)
		}
		if !metav1.IsControlledBy(existing, dgd) {
			return fmt.Errorf("%s %s exists and does not belong to this deployment; it is left alone. Rename the deployment or delete that object", kind, key.Name)
		}
		if same() && subset(child.GetLabels(), existing.GetLabels()) && subset(child.GetAnnotations(), existing.GetAnnotations()) {
			return nil
		}
		child.SetUID(existing.GetUID())
	}
	child.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(dgd, nvidiav1beta1.GroupVersion.WithKind("DynamoGraphDeployment"))})
	if err := r.serverSideApply(ctx, child); err != nil {
		return fmt.Errorf("applying %s %s: %w", kind, key.Name, err)
	}
	return nil
}

func (r *Reconciler) serverSideApply(ctx context.Context, child client.Object) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(child)
	if err != nil {
		return err
	}
	delete(content, "status")
	return r.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(&unstructured.Unstructured{Object: content}), client.FieldOwner(graph.FieldOwner), client.ForceOwnership,
		client.DisableReadYourWritesConsistency) // it would watch every kind a second time, as unstructured objects
}

// reader is the cache, but for kinds that a cluster may not have: those are read past it.
func (r *Reconciler) reader(object client.Object) client.Reader {
	if _, foreign := object.(*unstructured.Unstructured); foreign {
		return r.Live
	}
	return r.cached()
}

func subset(part, whole map[string]string) bool {
	for k, v := range part {
		if have, ok := whole[k]; !ok || have != v {
			return false
		}
	}
	return true
}
