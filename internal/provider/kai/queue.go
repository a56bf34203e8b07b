// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package kai

import (
	"cmp"

	"github.com/trellis-k8s/trellis/internal/render"
)

// Names in KAI's API.
const (
	// SchedulerName is KAI's, in pods and in schedulerTopologyReferences.
	SchedulerName = "kai-scheduler"
	// LabelQueue names the queue, on the PodGroup and its pods.
	LabelQueue = render.LabelQueue
	// LabelSubGroup names the leaf of the PodGroup that a pod belongs to.
	LabelSubGroup = "kai.scheduler/subgroup-name"
	// AnnotationPodGroup names the PodGroup of a pod.
	AnnotationPodGroup = "pod-group-name"
	// AnnotationSkipGrouper keeps KAI's own grouper away from a pod that has its PodGroup.
	AnnotationSkipGrouper = "kai.scheduler/skip-podgrouper"
)

// Queues of a deployment.
const (
	// AnnotationQueue on a deployment names its queue.
	AnnotationQueue = render.AnnotationQueue
	// DefaultQueue is the one that KAI's chart creates.
	DefaultQueue = "default-queue"
	// annotationWrittenQueue remembers, on a PodGroup, the queue Trellis wrote: one that differs was chosen by another client and stays.
	annotationWrittenQueue = "trellis.dev/queue"
)

// Queue of a deployment with these annotations and labels. present is the queue that its objects have already, "" for none: one that names
// no queue stays in that, so that another default moves and restarts nothing.
func Queue(annotations, labels map[string]string, present string) string {
	return cmp.Or(annotations[AnnotationQueue], labels[LabelQueue], present, DefaultQueue)
}
