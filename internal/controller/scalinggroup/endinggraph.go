// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalinggroup

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/rollout"
)

// The finalizer of another controller may delay the deletion of a deployment, and of its scaling groups, for a long time. Meanwhile serving
// replicas continue to run, and no pods are created. Updates, restarts and scale-ins are suspended, because without new pods they would
// only remove serving replicas.

// isEnding reports whether the deployment of a group is being deleted.
func isEnding(ctx context.Context, c client.Reader, sg *trellisv1alpha1.ScalingGroup) (bool, error) {
	owner := metav1.GetControllerOfNoCopy(sg)
	if owner == nil {
		return false, nil
	}
	dgd := &nvidiav1beta1.DynamoGraphDeployment{}
	err := c.Get(ctx, client.ObjectKey{Namespace: sg.Namespace, Name: owner.Name}, dgd)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("reading the deployment of the group: %w", err)
	}
	return err == nil && dgd.UID == owner.UID && dgd.DeletionTimestamp != nil, nil
}

// leaveWhatEnds restricts the steps to the removal of broken replicas while the deployment is being deleted. It removes all steps if the
// maker of the group's pods cannot be used now.
func (p *pass) leaveWhatEnds(ctx context.Context, next rollout.Plan) error {
	s := &p.steps
	if len(s.create)+len(s.make)+len(s.delete)+len(s.unmake) == 0 {
		return nil
	}
	ending, err := isEnding(ctx, p.Client, p.sg)
	switch {
	case err != nil || !ending:
		return err
	case p.makes(ctx, p.sg):
		*s = stepsOf(p.sg, p.replicas, p.attempts, next.OnlyRepair())
	default:
		*s = steps{}
	}
	return nil
}
