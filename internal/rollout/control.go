// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"regexp"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
)

// Annotations by which users control an update that runs. They count on the deployment itself.
const (
	// AnnotationPaused is "true" while no replica is replaced.
	AnnotationPaused = "trellis.dev/rollout-paused"
	// AnnotationAborted names a generation of workers that is not rolled out: the workers return to the one before.
	AnnotationAborted = "trellis.dev/rollout-aborted"
	// AnnotationPartition is the part of the workers that an update replaces before it pauses: see UpTo.
	AnnotationPartition = "trellis.dev/rollout-partition"
	// AnnotationProgressDeadline is how long an update may take from one replica that becomes available to the next, before it is reported.
	AnnotationProgressDeadline = "trellis.dev/rollout-progress-deadline"
)

// AnnotationMoves is how replicas leave nodes that are drained or removed, "InPlace" or "Never"; absent: a successor is created first. It
// counts on the deployment itself.
const AnnotationMoves = "trellis.dev/moves"

// FormerAnnotations have no effect. They had one in earlier versions, and are not part of what the pods are made from, so that pods of
// deployments that have them stay.
var FormerAnnotations = []string{"trellis.dev/rollout-ask-frontends"}

// MinProgressDeadline is the least that AnnotationProgressDeadline may say: pods need some seconds to start.
const MinProgressDeadline = 10 * time.Second

// Control is what users say of an update that runs, and of moves.
type Control struct {
	Paused bool
	// Aborted generation; "" for none.
	Aborted string
	// Partition that the new generation takes; nil: all.
	Partition *intstr.IntOrString
	// ProgressDeadline; 0 for none.
	ProgressDeadline time.Duration
	// Moves of replicas; "" for those with a successor.
	Moves trellisv1alpha1.MovePolicy
}

var generationName = regexp.MustCompile("^[0-9a-f]{8}$")

// ControlOf reads the annotations of a deployment. What cannot be followed is a problem, and counts as absent.
func ControlOf(dgd *nvidiav1beta1.DynamoGraphDeployment) (Control, []Problem) {
	var c Control
	var problems []Problem
	problem := func(key, message string) {
		problems = append(problems, Problem{key, dgd.Annotations[key], message})
	}
	switch value := dgd.Annotations[AnnotationPaused]; value {
	case "", "true", "false":
		c.Paused = value == "true"
	default:
		problem(AnnotationPaused, `must be "true" or "false"`)
	}
	if value, set := dgd.Annotations[AnnotationAborted]; set {
		if c.Aborted = value; !generationName.MatchString(value) {
			c.Aborted = ""
			problem(AnnotationAborted, `must be a generation of workers: 8 hexadecimal digits, like "3f2a9c01"`)
		}
	}
	if value, set := dgd.Annotations[AnnotationPartition]; set {
		if partition, ok := parse(value); ok {
			c.Partition = &partition
		} else {
			problem(AnnotationPartition, `must be a number of steps or a percentage, like "1" or "25%"`)
		}
	}
	if value, set := dgd.Annotations[AnnotationProgressDeadline]; set {
		deadline, err := time.ParseDuration(value)
		if c.ProgressDeadline = deadline; err != nil || deadline < MinProgressDeadline {
			c.ProgressDeadline = 0
			problem(AnnotationProgressDeadline, fmt.Sprintf(`must be a duration of at least %s, like "30m"`, MinProgressDeadline))
		}
	}
	switch value := trellisv1alpha1.MovePolicy(dgd.Annotations[AnnotationMoves]); value {
	case "", trellisv1alpha1.MovesInPlace, trellisv1alpha1.MovesNever:
		c.Moves = value
	default:
		problem(AnnotationMoves, `must be "InPlace" or "Never"`)
	}
	return c, problems
}
