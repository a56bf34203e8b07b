// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package graph

import (
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/rollout"
)

// resolveRollout reads how a service is updated.
func resolveRollout(dgd *nvidiav1beta1.DynamoGraphDeployment, c *nvidiav1beta1.ComponentSpec, s *Service) (trellisv1alpha1.RolloutStrategy, []error) {
	strategy, problems := rollout.StrategyOf(rollout.AnnotationsOf(dgd, c), packed(s.Multinode, s.Topology))
	var errs []error
	for _, p := range problems {
		errs = append(errs, invalid(PathOf(dgd, s.Name), "annotation %s %q %s", p.Annotation, p.Value, p.Message))
	}
	return strategy, errs
}
