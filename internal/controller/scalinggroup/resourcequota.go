// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalinggroup

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// podsCounted reports whether a ResourceQuota of a namespace counts pods, or what they ask for. A create may be refused at any pod of a
// gang there.
func (r *Reconciler) podsCounted(ctx context.Context, namespace string) (bool, error) {
	quotas := &corev1.ResourceQuotaList{}
	if err := r.Client.List(ctx, quotas, client.InNamespace(namespace)); err != nil {
		return false, fmt.Errorf("listing the ResourceQuotas of the namespace: %w", err)
	}
	for i := range quotas.Items {
		for name := range quotas.Items[i].Spec.Hard {
			if countsPods(name) {
				return true, nil
			}
		}
	}
	return false, nil
}

// countsPods reports whether a quota for a resource is used up by pods.
func countsPods(name corev1.ResourceName) bool {
	switch name {
	case corev1.ResourcePods, "count/pods", corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage:
		return true
	case corev1.ResourceRequestsStorage:
		return false
	}
	return strings.HasPrefix(string(name), corev1.DefaultResourceRequestsPrefix) || strings.HasPrefix(string(name), "limits.") ||
		strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}
