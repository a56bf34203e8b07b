// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
)

// Annotations with which users choose how a component is updated.
const (
	AnnotationStrategy       = "nvidia.com/deployment-strategy"
	AnnotationMaxSurge       = "nvidia.com/deployment-rolling-update-max-surge"
	AnnotationMaxUnavailable = "nvidia.com/deployment-rolling-update-max-unavailable"
)

// Annotations lists the annotations with which users choose how a component is updated.
var Annotations = []string{AnnotationStrategy, AnnotationMaxSurge, AnnotationMaxUnavailable}

// Annotations with which users limit the update of a deployment's workers, in steps as defined by [Shared].
const (
	AnnotationSharedMaxSurge       = "trellis.dev/rolling-update-max-surge"
	AnnotationSharedMaxUnavailable = "trellis.dev/rolling-update-max-unavailable"
)

// SharedAnnotations are the annotations that take effect only if they are set on the deployment itself.
var SharedAnnotations = []string{
	AnnotationSharedMaxSurge, AnnotationSharedMaxUnavailable, AnnotationPaused, AnnotationAborted, AnnotationPartition,
	AnnotationProgressDeadline, AnnotationMoves,
}

// Values of AnnotationStrategy.
const (
	StrategyRollingUpdate = "RollingUpdate"
	StrategyRecreate      = "Recreate"
)

// Problem is an annotation with an invalid value.
type Problem struct{ Annotation, Value, Message string }

// AnnotationsOf returns the update annotations of a component. It merges the annotations of the deployment, of the deployment's spec, and
// of the component's podTemplate, in this order. Later values override earlier values.
func AnnotationsOf(dgd *nvidiav1beta1.DynamoGraphDeployment, c *nvidiav1beta1.ComponentSpec) map[string]string {
	places := []map[string]string{dgd.Annotations, dgd.Spec.Annotations}
	if c != nil && c.PodTemplate != nil {
		places = append(places, c.PodTemplate.Annotations)
	}
	out := map[string]string{}
	for _, place := range places {
		for _, key := range Annotations {
			if value, ok := place[key]; ok {
				out[key] = value
			}
		}
	}
	return out
}

// StrategyOf reads the update strategy of a component. By default, packed components are updated in place, one replica at a time, because
// their replicas need capacity for whole gangs in the right domain. Other components are updated like the pods of a Deployment.
func StrategyOf(annotations map[string]string, packed bool) (trellisv1alpha1.RolloutStrategy, []Problem) {
	var problems []Problem
	recreate := false
	switch value := annotations[AnnotationStrategy]; value {
	case "", StrategyRollingUpdate:
	case StrategyRecreate:
		recreate = true
	default:
		problems = append(problems, Problem{AnnotationStrategy, value, "must be RollingUpdate or Recreate"})
	}
	s, more := ofReplicas.read(annotations, packed, recreate || len(problems) > 0)
	s.Recreate = recreate
	return s, append(problems, more...)
}

// SharedStrategyOf reads the common update strategy of a deployment's workers. By default, packed workers are replaced in place, one step
// at a time. Other workers are replaced like the pods of a Deployment.
func SharedStrategyOf(dgd *nvidiav1beta1.DynamoGraphDeployment, packed bool) (trellisv1alpha1.RolloutStrategy, []Problem) {
	return ofSteps.read(dgd.Annotations, packed, false)
}

// boundKeys are the two annotations that limit an update, and the name of the unit that they count.
type boundKeys struct{ unavailable, surge, counted string }

var (
	ofReplicas = boundKeys{AnnotationMaxUnavailable, AnnotationMaxSurge, "replicas"}
	ofSteps    = boundKeys{AnnotationSharedMaxUnavailable, AnnotationSharedMaxSurge, "steps"}
)

// read reads the bounds from annotations. If both are 0, no replica could be replaced. In this case, read reports the surge annotation as a
// problem or, if it is not set, sets the surge to 1. mayBeZero disables this check.
func (k boundKeys) read(annotations map[string]string, packed, mayBeZero bool) (trellisv1alpha1.RolloutStrategy, []Problem) {
	s := trellisv1alpha1.RolloutStrategy{MaxUnavailable: intstr.FromString("25%"), MaxSurge: intstr.FromString("25%")}
	if packed {
		s.MaxUnavailable, s.MaxSurge = intstr.FromInt32(1), intstr.FromInt32(0)
	}
	var problems []Problem
	given := map[string]bool{}
	for _, field := range []struct {
		key  string
		into *intstr.IntOrString
	}{{k.unavailable, &s.MaxUnavailable}, {k.surge, &s.MaxSurge}} {
		value, set := annotations[field.key]
		if !set {
			continue
		}
		parsed, ok := parse(value)
		if !ok {
			problems = append(problems, Problem{field.key, value, `must be a number of ` + k.counted + ` or a percentage, like "1" or "25%"`})
			continue
		}
		given[field.key] = true
		*field.into = parsed
	}
	if len(problems) == 0 && !mayBeZero && zero(s.MaxUnavailable) && zero(s.MaxSurge) {
		if given[k.surge] {
			return s, []Problem{{k.surge, annotations[k.surge], fmt.Sprintf("must not be 0 together with %s: no replica could be replaced",
				k.unavailable)}}
		}
		s.MaxSurge = intstr.FromInt32(1) // no replica may be missing, so a surplus one is needed
	}
	return s, problems
}

// StatesBounds reports whether a component's annotations set its maximum surge or its maximum unavailability.
func StatesBounds(annotations map[string]string) bool {
	_, surge := annotations[AnnotationMaxSurge]
	_, unavailable := annotations[AnnotationMaxUnavailable]
	return surge || unavailable
}

func parse(value string) (intstr.IntOrString, bool) {
	parsed := intstr.Parse(value)
	if parsed.Type == intstr.String {
		return parsed, len(validation.IsValidPercent(value)) == 0 && len(value) <= len("1000%")
	}
	return parsed, parsed.IntVal >= 0
}

func zero(v intstr.IntOrString) bool {
	n, err := intstr.GetScaledValueFromIntOrPercent(&v, 100, true)
	return err == nil && n == 0
}

// For returns the desired state of a scaling group. Percentages refer to the group's replicas. Surge is rounded up and unavailability down.
// If both are 0, one replica may be unavailable, as with Deployments. If the group has a step, the bounds of the step apply instead.
func For(sg *trellisv1alpha1.ScalingGroup) Group {
	g := Group{
		Replicas: int(sg.Spec.Replicas), MaxUnavailable: 1, Stopped: sg.Spec.Restart != nil && sg.Spec.Restart.Stop,
		MovesInPlace: sg.Spec.Moves == trellisv1alpha1.MovesInPlace,
	}
	for i := range sg.Status.Moves {
		g.Leaving = append(g.Leaving, Leave{Ordinal: int(sg.Status.Moves[i].Replica), Overdue: sg.Status.Moves[i].InPlace})
	}
	if step := sg.Spec.Step; step != nil {
		g.Step = &Step{
			Keep: int(step.Keep), Make: int(step.Make), Paused: step.Paused, Bounds: Bounds{MaxUnavailable: int(step.MaxUnavailable),
				MaxSurge: int(step.MaxSurge)},
		}
		for _, kept := range step.Generations {
			g.Step.Of = append(g.Step.Of, Kept{kept.Name, int(kept.Keep)})
		}
	}
	strategy := sg.Spec.Rollout
	if strategy == nil {
		return g
	}
	bounds := BoundsOf(strategy, g.Replicas)
	if g.Step != nil {
		bounds = g.Step.Bounds
	}
	if InPlace(sg) {
		bounds = bounds.InPlace()
	}
	g.Recreate, g.MaxUnavailable, g.MaxSurge = strategy.Recreate, bounds.MaxUnavailable, bounds.MaxSurge
	return g
}

// BoundsOf converts a strategy to numbers of replicas.
func BoundsOf(strategy *trellisv1alpha1.RolloutStrategy, replicas int) Bounds {
	b := Bounds{MaxUnavailable: scaled(strategy.MaxUnavailable, replicas, false), MaxSurge: scaled(strategy.MaxSurge, replicas, true)}
	if b.MaxUnavailable == 0 && b.MaxSurge == 0 {
		b.MaxUnavailable = 1
	}
	return b
}

func scaled(v intstr.IntOrString, replicas int, up bool) int {
	n, err := intstr.GetScaledValueFromIntOrPercent(&v, replicas, up)
	if err != nil {
		return 0 // the operator writes no such value
	}
	return max(0, n)
}
