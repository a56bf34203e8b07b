// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placer

import (
	"context"
	"fmt"
	"sync/atomic"

	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/internal/provider"
	"github.com/trellis-k8s/trellis/internal/provider/external"
)

// compositeKind is the kind of a tree's root. From Kubernetes 1.38 on, its version is v1beta1, with the fields of v1alpha3.
const compositeKind = "CompositePodGroup"

// Composite holds the API version of CompositePodGroups that the last probe found. The zero value means v1alpha3.
type Composite struct{ beta atomic.Bool }

// root returns an empty CompositePodGroup in the served version.
func (p Placer) root() *unstructured.Unstructured {
	out := &unstructured.Unstructured{}
	out.SetGroupVersionKind(schedulingv1alpha3.SchemeGroupVersion.WithKind(compositeKind))
	if p.Composite != nil && p.Composite.beta.Load() {
		out.SetGroupVersionKind(schedulingv1beta1.SchemeGroupVersion.WithKind(compositeKind))
	}
	return out
}

// formTree creates the root of a tree, or checks that an existing root matches. If another client has changed the number of PodGroups in
// the root, formTree corrects it.
func (p Placer) formTree(ctx context.Context, want *schedulingv1alpha3.CompositePodGroup) error {
	object, err := external.Object(want)
	if err != nil {
		return err
	}
	object.SetGroupVersionKind(p.root().GroupVersionKind())
	err = p.Client.Create(ctx, object)
	switch {
	case apierrors.IsAlreadyExists(err):
		object = p.root()
		if err := p.Live.Get(ctx, client.ObjectKeyFromObject(want), object); err != nil {
			return fmt.Errorf("reading CompositePodGroup %s: %w", want.Name, err)
		}
	case err != nil:
		return fmt.Errorf("creating CompositePodGroup %s: %w", want.Name, err)
	}
	made := &schedulingv1alpha3.CompositePodGroup{}
	if err := external.Read(object, made); err != nil {
		return err
	}
	policy := made.Spec.SchedulingPolicy.Gang
	groups := want.Spec.SchedulingPolicy.Gang.MinGroupCount
	switch {
	case made.DeletionTimestamp != nil || policy == nil ||
		(made.Spec.SchedulingConstraints == nil) != (want.Spec.SchedulingConstraints == nil):
		return fmt.Errorf("CompositePodGroup %s: %w", want.Name, provider.ErrStale)
	case policy.MinGroupCount != groups:
		return p.setGroups(ctx, object, groups)
	}
	return nil
}

// setGroups sets the minimum number of PodGroups in a root. Kubernetes 1.38 accepts this change. Kubernetes 1.37 refuses it, so the gang
// needs a new root.
func (p Placer) setGroups(ctx context.Context, root *unstructured.Unstructured, groups int32) error {
	before := root.DeepCopy()
	if err := unstructured.SetNestedField(root.Object, int64(groups), "spec", "schedulingPolicy", "gang", "minGroupCount"); err != nil {
		return fmt.Errorf("CompositePodGroup %s: %w", root.GetName(), err)
	}
	err := p.Client.Patch(ctx, root, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	switch {
	case apierrors.IsInvalid(err):
		return fmt.Errorf("CompositePodGroup %s, whose minGroupCount is immutable: %w", root.GetName(), provider.ErrStale)
	case err != nil:
		return fmt.Errorf("setting minGroupCount of CompositePodGroup %s: %w", root.GetName(), err)
	}
	return nil
}
