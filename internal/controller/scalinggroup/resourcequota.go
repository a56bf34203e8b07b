// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalinggroup

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/internal/controller/creationturns"
)

// quotasOfPods lists the ResourceQuotas of a namespace that count pods, or requests of pods. In such a namespace, the create of any pod of
// a gang may be refused.
func quotasOfPods(ctx context.Context, from client.Reader, namespace string) ([]corev1.ResourceQuota, error) {
	quotas := &corev1.ResourceQuotaList{}
	if err := from.List(ctx, quotas, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("listing the ResourceQuotas of the namespace: %w", err)
	}
	return slices.DeleteFunc(quotas.Items, func(quota corev1.ResourceQuota) bool { return !creationturns.CountsPods(&quota) }), nil
}
