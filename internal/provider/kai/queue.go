// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package kai

import (
	"cmp"

	"github.com/trellis-k8s/trellis/internal/render"
)

// Names in KAI's API.
const (
	// SchedulerName is KAI's scheduler name, in pods and in schedulerTopologyReferences.
	SchedulerName = "kai-scheduler"
	// LabelQueue names the queue, on the PodGroup and its pods.
	LabelQueue = render.LabelQueue
	// LabelSubGroup on a pod names the pod's leaf in the PodGroup.
	LabelSubGroup = "kai.scheduler/subgroup-name"
	// AnnotationPodGroup on a pod names the pod's PodGroup.
	AnnotationPodGroup = "pod-group-name"
	// AnnotationSkipGrouper keeps KAI's own grouper from making a PodGroup for a pod that already has one.
	AnnotationSkipGrouper = "kai.scheduler/skip-podgrouper"
)

// Names for a deployment's queue.
const (
	// AnnotationQueue on a deployment names its queue.
	AnnotationQueue = render.AnnotationQueue
	// DefaultQueue is the queue that KAI's chart creates.
	DefaultQueue = "default-queue"
	// annotationWrittenQueue on a PodGroup holds the queue that Trellis wrote. If the PodGroup has a different queue, another client chose
	// it, and Trellis keeps it.
	annotationWrittenQueue = "trellis.dev/queue"
)

// Queue returns the queue of a deployment with these annotations and labels. present is the current queue of the deployment's objects, ""
// for none. A deployment that names no queue stays in its present queue, so a change of the default moves and restarts nothing.
func Queue(annotations, labels map[string]string, present string) string {
	return cmp.Or(annotations[AnnotationQueue], labels[LabelQueue], present, DefaultQueue)
}
