// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package dynamographdeployment

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/rollout"
)

// stepWorkers decides how far each worker component may go while a generation of workers replaces another one. It goes by what the groups have counted of
// their current specs. Until all of them have, the last step stays, and where the revision or the number of replicas changes, nothing is replaced.
func stepWorkers(o observed, wanted *render.Graph) {
	workers := wanted.InStep()
	if !slices.ContainsFunc(workers, func(s *render.Component) bool { return replacing(o.groups[s.Name], s) }) {
		return
	}
	components := componentsOf(o, wanted, workers)
	steps := rollout.InStep(components)
	if !all(o, workers, counted) {
		for i := range components {
			steps[i] = held(o.groups[workers[i].Name], workers[i], components[i])
		}
		if all(o, workers, stepped) {
			for i, s := range workers {
				s.Step = repairing(o.groups[s.Name], s, components[i])
			}
			return
		}
	}
	for i, s := range workers {
		s.Step = &trellisv1alpha1.RolloutStep{
			Keep: int32(steps[i].Keep), Make: int32(steps[i].Make), MaxUnavailable: int32(steps[i].MaxUnavailable), MaxSurge: int32(steps[i].MaxSurge),
		}
	}
}

// replacing says that a group is to get another revision, or has not rolled it out.
func replacing(sg *trellisv1alpha1.ScalingGroup, s *render.Component) bool {
	return sg != nil && (sg.Spec.Revision != s.Revision || sg.Status.Revision != "" && sg.Status.Revision != s.Revision)
}

// counted: the group has the wanted revision, and has counted its replicas since it was last written.
func counted(sg *trellisv1alpha1.ScalingGroup, s *render.Component) bool {
	return sg.Spec.Revision == s.Revision && sg.Status.ObservedGeneration == sg.Generation
}

// stepped: the group has a step of the wanted revision and number of replicas.
func stepped(sg *trellisv1alpha1.ScalingGroup, s *render.Component) bool {
	return sg.Spec.Revision == s.Revision && sg.Spec.Replicas == s.Replicas && sg.Spec.Step != nil
}

// repairing is the last step of a group, in which it may make what the old generation has come to lack.
func repairing(sg *trellisv1alpha1.ScalingGroup, s *render.Component, c rollout.Component) *trellisv1alpha1.RolloutStep {
	step := sg.Spec.Step.DeepCopy()
	if counted(sg, s) {
		step.Make = max(step.Make, int32(rollout.Hold(c).Make))
	}
	return step
}

// held is the step of a component while not all groups have counted. A group that has not counted since it was written may make as many replicas as before,
// so that its step changes with its counts only; without a step of the revision, all its replicas are taken for old ones.
func held(sg *trellisv1alpha1.ScalingGroup, s *render.Component, c rollout.Component) rollout.Step {
	switch {
	case sg == nil || counted(sg, s):
		return rollout.Hold(c)
	case stepped(sg, s):
		step := rollout.Hold(c)
		step.Make = int(sg.Spec.Step.Make)
		return step
	}
	c.Old = int(sg.Status.Replicas)
	return rollout.Hold(c)
}

func all(o observed, workers []*render.Component, is func(*trellisv1alpha1.ScalingGroup, *render.Component) bool) bool {
	return !slices.ContainsFunc(workers, func(s *render.Component) bool {
		sg := o.groups[s.Name]
		return sg == nil || !is(sg, s)
	})
}

// workersChange says that a generation of workers is being replaced, or about to be.
func workersChange(components []component) bool {
	return slices.ContainsFunc(components, func(s component) bool {
		if s.group == nil || render.GenerationOf(s.group) == "" {
			return false
		}
		was, is := s.group.Status.Revision, s.group.Spec.Revision
		return was != "" && was != is || s.revision != nil && *s.revision != is
	})
}

// componentsOf are the workers as the rollout sees them.
func componentsOf(o observed, wanted *render.Graph, workers []*render.Component) []rollout.Component {
	replicas := make([]int, 0, len(workers))
	for _, s := range workers {
		replicas = append(replicas, int(s.Replicas))
	}
	shared := rollout.Shared(wanted.SharedRollout, replicas)
	out := make([]rollout.Component, 0, len(workers))
	for i, s := range workers {
		c := rollout.Component{Replicas: replicas[i], Bounds: shared[i], Recreate: s.Rollout.Recreate}
		if s.StatesBounds {
			c.Bounds = rollout.BoundsOf(&s.Rollout, replicas[i]).Within(replicas[i])
		}
		if sg := o.groups[s.Name]; sg != nil {
			c.Old, c.OldTerminating = int(sg.Status.OutdatedReplicas), int(sg.Status.TerminatingReplicas)
			c.NewAvailable = int(sg.Status.UpdatedAvailableReplicas)
			c.OldAvailable = int(sg.Status.AvailableReplicas) - c.NewAvailable
		}
		out = append(out, c)
	}
	return out
}

// servingGeneration is the generation of workers that is rolled out and serves; "" while there is none, or another one replaces it.
func servingGeneration(o observed, wanted *render.Graph) string {
	generation, serves := "", false
	for i := range wanted.Components {
		s := &wanted.Components[i]
		sg := o.groups[s.Name]
		switch {
		case sg == nil || render.GenerationOf(sg) == "":
		case replacing(sg, s):
			return ""
		default:
			generation, serves = render.GenerationOf(sg), serves || sg.Status.AvailableReplicas > 0
		}
	}
	if !serves {
		return ""
	}
	return generation
}

// noteGeneration writes the generation that serves into the deployment's annotation, where Dynamo's planner reads it.
func (r *Reconciler) noteGeneration(ctx context.Context, o observed, wanted *render.Graph) error {
	generation := servingGeneration(o, wanted)
	if generation == "" || o.dgd.Annotations[render.AnnotationWorkerHash] == generation {
		return nil
	}
	raw, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": o.dgd.UID, "annotations": map[string]string{render.AnnotationWorkerHash: generation},
	}})
	if err != nil {
		return fmt.Errorf("writing the patch of the generation: %w", err)
	}
	err = r.Client.Patch(ctx, o.dgd.DeepCopy(), client.RawPatch(types.MergePatchType, raw), client.FieldOwner(render.FieldOwner))
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) { // another deployment of its name, or none
		return nil
	}
	if err != nil {
		return fmt.Errorf("writing the generation of the workers: %w", err)
	}
	return nil
}
