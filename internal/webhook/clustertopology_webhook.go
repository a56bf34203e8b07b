// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/constraint"
	"github.com/trellis-k8s/trellis/internal/validation"
)

var _ admission.Validator[*grovev1alpha1.ClusterTopology] = &topologyValidator{}

// +kubebuilder:rbac:groups=nvidia.com,resources=dynamographdeployments,verbs=get;list;watch

// topologyValidator validates a ClusterTopology, and warns if a change removes a level that deployments use. It allows such a change,
// because administrators must be able to describe the changed cluster.
type topologyValidator struct {
	deployments client.Reader
}

// ValidateCreate implements admission.Validator.
func (v *topologyValidator) ValidateCreate(_ context.Context, ct *grovev1alpha1.ClusterTopology) (admission.Warnings, error) {
	if errs := validation.Topology(ct); len(errs) > 0 {
		return nil, invalid(grovev1alpha1.GroupVersion.WithKind("ClusterTopology"), ct.Name, errs.In(""))
	}
	return nil, nil
}

// ValidateUpdate implements admission.Validator.
func (v *topologyValidator) ValidateUpdate(ctx context.Context, old, updated *grovev1alpha1.ClusterTopology) (admission.Warnings, error) {
	if errs := validation.TopologyUpdate(updated, old); len(errs) > 0 {
		return nil, invalid(grovev1alpha1.GroupVersion.WithKind("ClusterTopology"), updated.Name, errs.In(""))
	}
	if updated.DeletionTimestamp != nil {
		return nil, nil
	}
	return v.warn(ctx, updated, old), nil
}

// ValidateDelete implements admission.Validator.
func (v *topologyValidator) ValidateDelete(ctx context.Context, ct *grovev1alpha1.ClusterTopology) (admission.Warnings, error) {
	return v.warn(ctx, nil, ct), nil
}

// warn names the deployments that a change affects. If the deployments cannot be listed, it returns a warning about this and allows the
// change.
func (v *topologyValidator) warn(ctx context.Context, updated, old *grovev1alpha1.ClusterTopology) admission.Warnings {
	users, err := v.users(ctx, old.Name)
	if err != nil {
		return admission.Warnings{fmt.Sprintf("could not look up which DynamoGraphDeployments use %s %q: %v", old.Source(), old.Name, err)}
	}
	return validation.TopologyWarnings(updated, old, users)
}

func (v *topologyValidator) users(ctx context.Context, topology string) ([]validation.UserOf, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	var deployments nvidiav1beta1.DynamoGraphDeploymentList
	if err := v.deployments.List(ctx, &deployments, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	var users []validation.UserOf
	for i := range deployments.Items {
		dgd := &deployments.Items[i]
		if dgd.DeletionTimestamp == nil && constraint.TopologyName(dgd) == topology {
			users = append(users, validation.UserOf{Namespace: dgd.Namespace, Name: dgd.Name, Domains: validation.DomainsInUse(dgd)})
		}
	}
	return users, nil
}
