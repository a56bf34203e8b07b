// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/newpod"
)

// +kubebuilder:rbac:groups="",resources=limitranges,verbs=list;watch
// +kubebuilder:rbac:groups=node.k8s.io,resources=runtimeclasses,verbs=list;watch

// admission reads the objects that the API server's admission applies to new pods. Plans include pods that do not exist yet, but no release
// depends on these pods. So the loop does not wait until the objects are read. Without permission to read the objects, it plans such pods
// from their templates alone.
type admission struct {
	runtimes, limits toolscache.InformerSynced
}

func (a *admission) watch(ctx context.Context, c cache.Cache) error {
	for _, kind := range []struct {
		object client.Object
		synced *toolscache.InformerSynced
	}{{&nodev1.RuntimeClass{}, &a.runtimes}, {&corev1.LimitRange{}, &a.limits}} {
		informer, err := c.GetInformer(ctx, kind.object, cache.BlockUntilSynced(false))
		if err != nil {
			return fmt.Errorf("watching %T: %w", kind.object, err)
		}
		*kind.synced = informer.HasSynced
	}
	return nil
}

// of returns the synced LimitRanges of a namespace and, if a group names a RuntimeClass, the synced RuntimeClasses.
func (a *admission) of(ctx context.Context, c client.Reader, namespace string, groups []*trellisv1alpha1.ScalingGroup) (o newpod.Objects,
	err error) {
	if a.limits != nil && a.limits() {
		list := &corev1.LimitRangeList{}
		if err := c.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
			return o, err
		}
		for i := range list.Items {
			o.LimitRanges = append(o.LimitRanges, &list.Items[i])
		}
	}
	if a.runtimes != nil && a.runtimes() && slices.ContainsFunc(groups, namesRuntime) {
		list := &nodev1.RuntimeClassList{}
		if err := c.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return o, err
		}
		for i := range list.Items {
			o.RuntimeClasses = append(o.RuntimeClasses, &list.Items[i])
		}
	}
	return o, nil
}

func namesRuntime(sg *trellisv1alpha1.ScalingGroup) bool {
	return slices.ContainsFunc(sg.Spec.Roles, func(role trellisv1alpha1.Role) bool { return role.Template.Spec.RuntimeClassName != nil })
}
