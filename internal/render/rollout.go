// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"slices"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/internal/rollout"
)

// resolveRollout resolves the update strategy of a component.
func resolveRollout(dgd *nvidiav1beta1.DynamoGraphDeployment, c *nvidiav1beta1.ComponentSpec,
	s *Component) (trellisv1alpha1.RolloutStrategy, []error) {
	annotations := rollout.AnnotationsOf(dgd, c)
	strategy, problems := rollout.StrategyOf(annotations, packed(s.Multinode, s.Topology))
	s.StatesBounds = rollout.StatesBounds(annotations)
	var errs []error
	for _, p := range problems {
		errs = append(errs, invalid(PathOf(dgd, s.Name), "annotation %s %q %s", p.Annotation, p.Value, p.Message))
	}
	return strategy, errs
}

// Worker reports whether the component is a worker. Only workers belong to a generation.
func (s *Component) Worker() bool { return isWorker(s.ComponentType) }

// InStep returns the workers whose generations are replaced together: all workers with a generation, if Trellis replaces the pods and the
// graph has several such workers; otherwise none.
func (g *Graph) InStep() []*Component {
	if workers := g.InGeneration(); len(workers) > 1 {
		return workers
	}
	return nil
}

// InGeneration returns the workers that have a generation; none if Trellis does not replace the pods.
func (g *Graph) InGeneration() []*Component {
	if !specs.Named(g.Provider).Planned {
		return nil
	}
	var workers []*Component
	for i := range g.Components {
		if s := &g.Components[i]; s.Worker() && s.generation() != "" {
			workers = append(workers, s)
		}
	}
	return workers
}

// resolveShared resolves the strategy for updating the workers together, and the policy for moving replicas.
func (g *Graph) resolveShared(dgd *nvidiav1beta1.DynamoGraphDeployment) []error {
	anyPacked := slices.ContainsFunc(g.InStep(), func(s *Component) bool { return packed(s.Multinode, s.Topology) })
	strategy, problems := rollout.SharedStrategyOf(dgd, anyPacked)
	g.SharedRollout = strategy
	control, more := rollout.ControlOf(dgd)
	g.Moves = control.Moves
	var errs []error
	for _, p := range append(problems, more...) {
		errs = append(errs, invalid(ownAnnotations.Key(p.Annotation), "%q %s", p.Value, p.Message))
	}
	return errs
}
