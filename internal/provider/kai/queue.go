// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package kai

import (
	"cmp"

	"github.com/trellis-k8s/trellis/internal/render"
)

// Names in KAI's API.
const (
	// SchedulerName is KAI's name, in pods and in schedulerTopologyReferences.
	SchedulerName = "kai-scheduler"
	// LabelQueue names the queue, on the PodGroup and its pods.
	LabelQueue = render.LabelQueue
	// LabelSubGroup names the leaf of a pod in its PodGroup.
	LabelSubGroup = "kai.scheduler/subgroup-name"
	// AnnotationPodGroup names the PodGroup of a pod.
	AnnotationPodGroup = "pod-group-name"
	// AnnotationSkipGrouper excludes a pod with a PodGroup from KAI's own grouper.
	AnnotationSkipGrouper = "kai.scheduler/skip-podgrouper"
)

// Queues of a deployment.
const (
	// AnnotationQueue on a deployment names its queue.
	AnnotationQueue = render.AnnotationQueue
	// DefaultQueue is the queue that KAI's chart creates.
	DefaultQueue = "default-queue"
	// annotationWrittenQueue on a PodGroup holds the queue that Trellis wrote: another client has chosen a different one, which stays.
	annotationWrittenQueue = "trellis.dev/queue"
)

// Queue returns the queue of a deployment with these annotations and labels. present is the current queue of its objects, "" for none: a
// deployment that names no queue stays in it, so another default moves and restarts nothing.
func Queue(annotations, labels map[string]string, present string) string {
	return cmp.Or(annotations[AnnotationQueue], labels[LabelQueue], present, DefaultQueue)
}
