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

// compositeKind is the kind of the root of a tree. From Kubernetes 1.38 on its version is v1beta1, with the fields of v1alpha3.
const compositeKind = "CompositePodGroup"

// Composite holds the version of CompositePodGroups that the last probe found. The zero value is v1alpha3.
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

// formTree creates the root of a tree, or checks that the existing one matches.
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
	if made.DeletionTimestamp != nil || policy == nil || policy.MinGroupCount != want.Spec.SchedulingPolicy.Gang.MinGroupCount ||
		(made.Spec.SchedulingConstraints == nil) != (want.Spec.SchedulingConstraints == nil) {
		return fmt.Errorf("CompositePodGroup %s: %w", want.Name, provider.ErrStale)
	}
	return nil
}
