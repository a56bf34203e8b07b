// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/scheduler"
)

// cacheOptions keeps the memory of a large cluster small: nothing keeps managed fields, and of the pods of others only what takes room
// on a node is kept. Pods and nodes are read from the whole cluster even when only some namespaces are managed.
func cacheOptions(namespaces []string) cache.Options {
	o := cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Pod{}:  {Transform: scheduler.StripPod},
			&corev1.Node{}: {Transform: scheduler.StripNode},
		},
	}
	if len(namespaces) == 0 {
		return o
	}
	managed := map[string]cache.Config{}
	for _, ns := range namespaces {
		managed[ns] = cache.Config{}
	}
	for _, object := range []client.Object{
		&nvidiav1alpha1.DynamoGraphDeployment{}, &nvidiav1alpha1.DynamoGraphDeploymentScalingAdapter{}, &trellisv1alpha1.ScalingGroup{}, &corev1.Service{},
	} {
		o.ByObject[object] = cache.ByObject{Namespaces: managed}
	}
	return o
}
