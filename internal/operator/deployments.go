// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
)

// deployments reads DynamoGraphDeployments for admission. It reads from the API server until the cache is synced, and then from the cache.
type deployments struct {
	client.Reader
	live client.Reader
	// namespaces are the namespaces that the operator may read; empty for all.
	namespaces []string
	synced     func() bool
}

func readDeployments(mgr ctrl.Manager, namespaces []string) (client.Reader, error) {
	informer, err := mgr.GetCache().GetInformer(context.Background(), &nvidiav1beta1.DynamoGraphDeployment{}, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, fmt.Errorf("watching DynamoGraphDeployments: %w", err)
	}
	return deployments{Reader: mgr.GetCache(), live: mgr.GetAPIReader(), namespaces: namespaces, synced: informer.HasSynced}, nil
}

// List implements client.Reader, for lists of all readable deployments.
func (d deployments) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if d.synced() {
		return d.Reader.List(ctx, list, opts...)
	}
	out, ok := list.(*nvidiav1beta1.DynamoGraphDeploymentList)
	if !ok {
		return fmt.Errorf("cannot list %T before the cache is synced", list)
	}
	namespaces := d.namespaces
	if len(namespaces) == 0 {
		namespaces = []string{corev1.NamespaceAll}
	}
	for _, namespace := range namespaces {
		part := &nvidiav1beta1.DynamoGraphDeploymentList{}
		if err := d.live.List(ctx, part, append(opts[:len(opts):len(opts)], client.InNamespace(namespace))...); err != nil {
			return err
		}
		out.Items = append(out.Items, part.Items...)
	}
	return nil
}
