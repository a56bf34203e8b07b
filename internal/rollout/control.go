// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"regexp"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
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
	// AnnotationAskFrontends is "true" where a new worker counts as available only when the frontends have discovered it.
	AnnotationAskFrontends = "trellis.dev/rollout-ask-frontends"
)

// MinProgressDeadline is the least that AnnotationProgressDeadline may say: pods need some seconds to start.
const MinProgressDeadline = 10 * time.Second

// Control is what users say of an update that runs.
type Control struct {
	Paused bool
	// Aborted generation; "" for none.
	Aborted string
	// Partition that the new generation takes; nil: all.
	Partition *intstr.IntOrString
	// ProgressDeadline; 0 for none.
	ProgressDeadline time.Duration
	// AskFrontends whether they have discovered a new worker.
	AskFrontends bool
}

var generationName = regexp.MustCompile("^[0-9a-f]{8}$")

// ControlOf reads the annotations of a deployment. What cannot be followed is a problem, and counts as absent.
func ControlOf(dgd *nvidiav1beta1.DynamoGraphDeployment) (Control, []Problem) {
	var c Control
	var problems []Problem
	problem := func(key, message string) {
		problems = append(problems, Problem{key, dgd.Annotations[key], message})
	}
	truth := func(key string) bool {
		value := dgd.Annotations[key]
		if value != "" && value != "true" && value != "false" {
			problem(key, `must be "true" or "false"`)
		}
		return value == "true"
	}
	c.Paused = truth(AnnotationPaused)
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
	c.AskFrontends = truth(AnnotationAskFrontends)
	return c, problems
}
