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

// Annotations with which users control a running update. They take effect only if they are set on the deployment itself.
const (
	// AnnotationPaused is "true" to pause the update: no replica is replaced.
	AnnotationPaused = "trellis.dev/rollout-paused"
	// AnnotationAborted names a generation of workers whose rollout is aborted: the workers return to the previous generation.
	AnnotationAborted = "trellis.dev/rollout-aborted"
	// AnnotationPartition is the part of the workers that an update replaces before it pauses: see UpTo.
	AnnotationPartition = "trellis.dev/rollout-partition"
	// AnnotationProgressDeadline is the maximum time from one replica that becomes available to the next. The operator reports a slower
	// update.
	AnnotationProgressDeadline = "trellis.dev/rollout-progress-deadline"
)

// AnnotationMoves selects how replicas leave nodes that are drained or removed: "InPlace" or "Never". Without the annotation, a successor
// is created first. The annotation takes effect only if it is set on the deployment itself.
const AnnotationMoves = "trellis.dev/moves"

// FormerAnnotations are annotations of earlier versions that have no effect any more. They do not contribute to the pods' revision, so that
// deployments with these annotations keep their pods.
var FormerAnnotations = []string{"trellis.dev/rollout-ask-frontends"}

// MinProgressDeadline is the minimum of AnnotationProgressDeadline, because pods need some seconds to start.
const MinProgressDeadline = 10 * time.Second

// Control is the user's control of a running update and of moves.
type Control struct {
	Paused bool
	// Aborted is the aborted generation; "" for none.
	Aborted string
	// Partition is the part of the workers that the new generation replaces; nil: all.
	Partition *intstr.IntOrString
	// ProgressDeadline is the value of AnnotationProgressDeadline; 0 for none.
	ProgressDeadline time.Duration
	// Moves is the policy for moves; "" to create a successor first.
	Moves trellisv1alpha1.MovePolicy
}

var generationName = regexp.MustCompile("^[0-9a-f]{8}$")

// ControlOf reads the annotations of a deployment. It returns an invalid value as a problem, and treats it as absent.
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
