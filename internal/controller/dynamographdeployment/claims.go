// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package dynamographdeployment

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/render"
)

// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=create;list;watch

// createClaims creates the volume claims that a deployment requests, unless they exist. It uses an existing claim of the user unchanged,
// because volumes hold the user's data. A claim of an earlier deployment of this name that is still being deleted is an error.
func (r *Reconciler) createClaims(ctx context.Context, dgd *nvidiav1beta1.DynamoGraphDeployment,
	claims []*corev1.PersistentVolumeClaim) []error {
	var failures []error
	for _, claim := range claims {
		existing, err := r.claim(ctx, client.ObjectKeyFromObject(claim))
		switch {
		case err != nil:
			failures = append(failures, err)
		case existing == nil:
			claim.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(dgd,
				nvidiav1beta1.GroupVersion.WithKind("DynamoGraphDeployment"))})
			err := r.Client.Create(ctx, claim, client.FieldOwner(render.FieldOwner))
			if err != nil && !apierrors.IsAlreadyExists(err) { // the cache may lag behind
				failures = append(failures, fmt.Errorf("creating PersistentVolumeClaim %s: %w", claim.Name, err))
			}
		case isLeftover(existing, dgd):
			failures = append(failures, &leftover{"PersistentVolumeClaim " + claim.Name})
		}
	}
	return failures
}

// claim reads the metadata of a volume claim; nil if it does not exist.
func (r *Reconciler) claim(ctx context.Context, key client.ObjectKey) (*metav1.PartialObjectMetadata, error) {
	existing := claimMetadata()
	err := r.Client.Get(ctx, key, existing)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading PersistentVolumeClaim %s: %w", key.Name, err)
	}
	return existing, nil
}

// claimMetadata returns an empty object with which volume claims are read and cached as metadata only.
func claimMetadata() *metav1.PartialObjectMetadata {
	out := &metav1.PartialObjectMetadata{}
	out.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"))
	return out
}
