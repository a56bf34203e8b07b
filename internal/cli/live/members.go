// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/render"
)

// PodsOf returns the number of pods in the replica of a pod. This is the number at creation, from the pod's labels, or else the number in
// the component's spec.
func PodsOf(pod metav1.Object, c *nvidiav1beta1.ComponentSpec) int {
	if size, err := strconv.Atoi(pod.GetLabels()[render.LabelReplicaSize]); err == nil && size > 0 {
		return size
	}
	size, _ := c.PodsPerReplica()
	return int(size)
}

// Members lists the metadata of the pods of all graphs in a namespace, or in all namespaces.
func Members(ctx context.Context, c client.Reader, namespace string) ([]metav1.PartialObjectMetadata, error) {
	var all []metav1.PartialObjectMetadata
	token := ""
	for {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
		err := c.List(ctx, list, client.InNamespace(namespace), client.HasLabels{render.LabelGraph}, client.Limit(page), client.Continue(token))
		if err != nil {
			return nil, err
		}
		all = append(all, list.Items...)
		if token = list.Continue; token == "" {
			return all, nil
		}
	}
}
