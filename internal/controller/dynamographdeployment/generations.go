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
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/bools"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/rollout"
)

// stepWorkers limits how many replicas of each worker component may be replaced while one generation of workers replaces another. It pauses
// all components while the update is paused. stepWorkers needs the counts of all groups for their current specs. Until it has these counts,
// each group keeps its last step. If the revision or the number of replicas has changed since that step, the groups get steps that replace
// no available replica.
func stepWorkers(o observed, wanted *render.Graph) {
	control, _ := rollout.ControlOf(o.dgd)
	workers := wanted.InStep()
	if specs.Named(wanted.Provider).Planned && control.Paused || abortsInVain(o, wanted) {
		pause(o, wanted, workers)
		return
	}
	if control.Partition != nil {
		workers = wanted.InGeneration() // a single worker as well
	}
	if !slices.ContainsFunc(workers, func(s *render.Component) bool { return replacing(o.groups[s.Name], s) }) {
		return
	}
	components := componentsOf(o, wanted, workers)
	steps := rollout.InStep(components)
	if control.Partition != nil && !wanted.RolledBack {
		steps = upTo(steps, components, *control.Partition)
	}
	if !all(o, workers, counted) {
		for i := range components {
			steps[i] = held(o.groups[workers[i].Name], workers[i], components[i])
			steps[i].Paused = control.Partition != nil && !wanted.RolledBack
		}
		if all(o, workers, stepped) {
			for i, s := range workers {
				s.Step = repairing(o.groups[s.Name], s, components[i])
			}
			return
		}
	}
	for i, s := range workers {
		s.Step = stepOf(steps[i])
	}
}

// upTo limits steps to the partition that the user has set, and pauses the update once the partition is reached.
func upTo(steps []rollout.Step, components []rollout.Component, partition intstr.IntOrString) []rollout.Step {
	steps, reached := rollout.UpTo(steps, components, partition)
	if !reached {
		return steps
	}
	out := make([]rollout.Step, 0, len(steps))
	for _, c := range components {
		step := rollout.Hold(c)
		step.Paused = true
		out = append(out, step)
	}
	return out
}

// pause stops the replacement of replicas in all components.
func pause(o observed, wanted *render.Graph, workers []*render.Component) {
	shared := componentsOf(o, wanted, workers)
	for i := range wanted.Components {
		s := &wanted.Components[i]
		sg := o.groups[s.Name]
		if !replacing(sg, s) && !stillPaused(sg) {
			continue
		}
		c := countsOf(o, s)
		if at := slices.Index(workers, s); at >= 0 {
			c = shared[at]
		}
		step := held(sg, s, c)
		step.Paused = true
		s.Step = stepOf(step)
	}
}

// abortsInVain reports whether the user has aborted the wanted generation, but no other generation is stored to which
// the workers could roll back.
func abortsInVain(o observed, wanted *render.Graph) bool {
	control, _ := rollout.ControlOf(o.dgd)
	return specs.Named(wanted.Provider).Planned && control.Aborted != "" && control.Aborted == wanted.Generation && !wanted.RolledBack
}

func stepOf(step rollout.Step) *trellisv1alpha1.RolloutStep {
	out := &trellisv1alpha1.RolloutStep{
		Keep: int32(step.Keep), Make: int32(step.Make), Paused: step.Paused, MaxUnavailable: int32(step.MaxUnavailable),
		MaxSurge: int32(step.MaxSurge),
	}
	for _, kept := range step.Of {
		out.Generations = append(out.Generations, trellisv1alpha1.GenerationStep{Name: kept.Generation, Keep: int32(kept.Replicas)})
	}
	return out
}

// replacing reports whether replicas of a group are being replaced or are about to be: the group gets another revision, it has not
// completed its rollout, or it returns to the revision that it last rolled out and still has replicas of another generation.
func replacing(sg *trellisv1alpha1.ScalingGroup, s *render.Component) bool {
	switch {
	case sg == nil:
		return false
	case sg.Spec.Revision != s.Revision, sg.Status.Revision != "" && sg.Status.Revision != s.Revision:
		return true
	case sg.Status.ObservedGeneration != sg.Generation:
		return sg.Spec.Step != nil
	}
	return hasOthers(sg)
}

// stillPaused reports whether the group's step pauses the update while outdated replicas remain. It does not check generations, because
// only workers have them. So, unlike [replacing], it is also true for a component without generations whose revision has returned to the
// revision that was last rolled out.
func stillPaused(sg *trellisv1alpha1.ScalingGroup) bool {
	return sg != nil && sg.Spec.Step != nil && sg.Spec.Step.Paused && sg.Status.OutdatedReplicas > 0
}

// hasOthers reports whether the group has replicas of a generation other than the generation in its spec.
func hasOthers(sg *trellisv1alpha1.ScalingGroup) bool {
	return slices.ContainsFunc(sg.Status.Generations, func(g trellisv1alpha1.GenerationCount) bool {
		return g.Name != render.GenerationOf(sg)
	})
}

// counted reports whether the group has the wanted revision, and its status has the counts for its current spec, including the available
// replicas by generation.
func counted(sg *trellisv1alpha1.ScalingGroup, s *render.Component) bool {
	return sg.Spec.Revision == s.Revision && sg.Status.ObservedGeneration == sg.Generation &&
		(render.GenerationOf(sg) == "" || len(sg.Status.Generations) > 0 || sg.Status.AvailableReplicas == sg.Status.UpdatedAvailableReplicas)
}

// stepped reports whether the group has a step for the wanted revision and number of replicas.
func stepped(sg *trellisv1alpha1.ScalingGroup, s *render.Component) bool {
	return sg.Spec.Revision == s.Revision && sg.Spec.Replicas == s.Replicas && sg.Spec.Step != nil
}

// repairing returns the last step of a group, extended so that the group may also replace lost replicas of the old generation.
func repairing(sg *trellisv1alpha1.ScalingGroup, s *render.Component, c rollout.Component) *trellisv1alpha1.RolloutStep {
	step := sg.Spec.Step.DeepCopy()
	if counted(sg, s) {
		step.Make = max(step.Make, int32(rollout.Hold(c).Make))
	}
	return step
}

// held returns a step that replaces no available replica of a component. A group without current counts keeps the field Make of its last
// step until the counts are current. If such a group has no step for the wanted spec, all its replicas count as old.
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

// workersChange reports whether a generation of workers is being replaced, or is about to be.
func workersChange(components []component) bool {
	return slices.ContainsFunc(components, func(s component) bool {
		if s.group == nil || render.GenerationOf(s.group) == "" {
			return false
		}
		was, is := s.group.Status.Revision, s.group.Spec.Revision
		return was != "" && was != is || s.revision != nil && *s.revision != is
	})
}

// componentsOf returns the workers as input of package rollout.
func componentsOf(o observed, wanted *render.Graph, workers []*render.Component) []rollout.Component {
	replicas := make([]int, 0, len(workers))
	for _, s := range workers {
		replicas = append(replicas, int(s.Replicas))
	}
	shared := rollout.Shared(wanted.SharedRollout, replicas)
	out := make([]rollout.Component, 0, len(workers))
	for i, s := range workers {
		c := countsOf(o, s)
		if !s.StatesBounds && len(workers) > 1 {
			c.Bounds = shared[i]
		}
		if sg := o.groups[s.Name]; sg != nil && sg.Spec.Revision == s.Revision && rollout.InPlace(sg) {
			c.Bounds = c.InPlace()
		}
		out = append(out, c)
	}
	return out
}

// countsOf returns a component with its replica counts and its own bounds, as input of package rollout.
func countsOf(o observed, s *render.Component) rollout.Component {
	replicas := int(s.Replicas)
	c := rollout.Component{Replicas: replicas, Bounds: rollout.BoundsOf(&s.Rollout, replicas).Within(replicas), Recreate: s.Rollout.Recreate}
	if sg := o.groups[s.Name]; sg != nil {
		c.Old, c.OldTerminating = int(sg.Status.OutdatedReplicas), int(sg.Status.TerminatingReplicas)
		c.NewAvailable = int(sg.Status.UpdatedAvailableReplicas)
		c.Earlier = earlierOf(o, sg)
	}
	return c
}

// earlierOf counts the available replicas of a group by generation. The generation that was rolled out last comes first, because it has
// served before.
func earlierOf(o observed, sg *trellisv1alpha1.ScalingGroup) []rollout.Earlier {
	var out []rollout.Earlier
	for _, g := range sg.Status.Generations {
		out = append(out, rollout.Earlier{Generation: g.Name, Available: int(g.AvailableReplicas)})
	}
	last := o.dgd.Annotations[render.AnnotationWorkerHash]
	slices.SortStableFunc(out, func(a, b rollout.Earlier) int { return bools.Compare(b.Generation == last, a.Generation == last) })
	return out
}

// servingGeneration returns the generation of workers that is rolled out and serves; "" for workers without generations. known is false
// while another generation replaces the workers, or if no worker serves.
func servingGeneration(o observed, wanted *render.Graph) (generation string, known bool) {
	serves := false
	for i := range wanted.Components {
		s := &wanted.Components[i]
		sg := o.groups[s.Name]
		switch {
		case sg == nil || !s.Worker():
		case replacing(sg, s):
			return "", false
		default:
			generation, serves = render.GenerationOf(sg), serves || sg.Status.AvailableReplicas > 0
		}
	}
	return generation, serves
}

// noteGeneration writes the serving generation into the deployment's annotation, which Dynamo's planner reads, or removes the annotation
// if the serving workers have no generation.
func (r *Reconciler) noteGeneration(ctx context.Context, o observed, wanted *render.Graph) error {
	generation, known := servingGeneration(o, wanted)
	if noted, ok := o.dgd.Annotations[render.AnnotationWorkerHash]; !known || noted == generation && (ok == (generation != "")) {
		return nil
	}
	value := &generation
	if generation == "" {
		value = nil
	}
	raw, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": o.dgd.UID, "annotations": map[string]*string{render.AnnotationWorkerHash: value},
	}})
	if err != nil {
		return fmt.Errorf("writing the patch of the generation: %w", err)
	}
	err = r.Client.Patch(ctx, o.dgd.DeepCopy(), client.RawPatch(types.MergePatchType, raw), client.FieldOwner(render.FieldOwner))
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) { // another deployment has its name now, or none
		return nil
	}
	if err != nil {
		return fmt.Errorf("writing the generation of the workers: %w", err)
	}
	return nil
}
