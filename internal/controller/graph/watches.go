// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
)

// PoolDefinition is the definition of a kind that a cluster may get after Trellis.
const PoolDefinition = "inferencepools.inference.networking.k8s.io"

// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,resourceNames=inferencepools.inference.networking.k8s.io,verbs=get;list;watch

// watchExtras watches what deployments have beside scaling groups, and what they need. Objects may have several deployments as owners.
func (r *Reconciler) watchExtras(mgr ctrl.Manager, b *builder.Builder) {
	owners := handler.EnqueueRequestForOwner(mgr.GetScheme(), mgr.GetRESTMapper(), &nvidiav1alpha1.DynamoGraphDeployment{})
	for _, kind := range []client.Object{
		&corev1.Service{}, &corev1.ServiceAccount{}, &corev1.ConfigMap{}, &rbacv1.Role{}, &rbacv1.RoleBinding{}, &networkingv1.Ingress{},
	} {
		b.Watches(kind, owners)
	}
	b.WatchesMetadata(claimMetadata(), handler.EnqueueRequestsFromMapFunc(r.usersOfClaim))
	b.WatchesMetadata(DefinitionMetadata(), handler.EnqueueRequestsFromMapFunc(r.usersOfPools))
}

// DefinitionMetadata is all that is read, and cached, of definitions.
func DefinitionMetadata() *metav1.PartialObjectMetadata {
	out := &metav1.PartialObjectMetadata{}
	out.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	return out
}

func (r *Reconciler) indexPrerequisites(ctx context.Context, mgr ctrl.Manager) error {
	for field, values := range map[string]func(*nvidiav1alpha1.DynamoGraphDeployment) []string{IndexByClaim: claimNames, IndexByPicker: hasPicker} {
		err := mgr.GetFieldIndexer().IndexField(ctx, &nvidiav1alpha1.DynamoGraphDeployment{}, field, func(o client.Object) []string {
			return values(o.(*nvidiav1alpha1.DynamoGraphDeployment))
		})
		if err != nil {
			return fmt.Errorf("indexing deployments by %s: %w", field, err)
		}
	}
	return nil
}
