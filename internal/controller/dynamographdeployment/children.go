// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package dynamographdeployment

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/render"
)

// indexByLabel indexes children by the deployment in their label, because a namespace may have the children of a thousand deployments.
const indexByLabel = "trellis.graph"

func indexChildren(ctx context.Context, indexer client.FieldIndexer) error {
	for _, kind := range childKinds() {
		if err := indexer.IndexField(ctx, kind, indexByLabel, labelOf); err != nil {
			return fmt.Errorf("indexing %T by deployment: %w", kind, err)
		}
	}
	return nil
}

func childKinds() []client.Object {
	return []client.Object{
		&corev1.ServiceAccount{}, &corev1.ConfigMap{}, &rbacv1.Role{}, &rbacv1.RoleBinding{}, &networkingv1.Ingress{}, &corev1.Service{},
		&trellisv1alpha1.ScalingGroup{},
	}
}

func labelOf(child client.Object) []string {
	if name := child.GetLabels()[render.LabelGraph]; name != "" {
		return []string{name}
	}
	return nil
}

// labelled lists the objects of a kind that have the deployment's label, with any owner or none.
func (r *Reconciler) labelled(ctx context.Context, dgd *nvidiav1beta1.DynamoGraphDeployment, list client.ObjectList) ([]runtime.Object,
	error) {
	err := r.Client.List(ctx, list, client.InNamespace(dgd.Namespace), client.MatchingFields{indexByLabel: render.LabelValue(dgd.Name)})
	if err != nil {
		return nil, fmt.Errorf("listing %T: %w", list, err)
	}
	return meta.ExtractList(list)
}
