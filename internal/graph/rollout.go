// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package graph

import (
	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/rollout"
)

// resolveRollout reads how a service is updated.
func resolveRollout(dgd *nvidiav1alpha1.DynamoGraphDeployment, s *Service) (trellisv1alpha1.RolloutStrategy, []error) {
	strategy, problems := rollout.StrategyOf(rollout.AnnotationsOf(dgd, s.Name), packed(s.Multinode, s.Topology))
	var errs []error
	for _, p := range problems {
		errs = append(errs, invalid(servicePath(s.Name), "annotation %s %q %s", p.Annotation, p.Value, p.Message))
	}
	return strategy, errs
}
