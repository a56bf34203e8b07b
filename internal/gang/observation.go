// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/assignment"
	"github.com/trellis-k8s/trellis/internal/newpod"
	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// Observation is all that one decision about a graph is made from. The scheduler fills in all of it; a what-if has no released pods, and
// leaves out what is about those.
type Observation struct {
	DGD *nvidiav1beta1.DynamoGraphDeployment
	// Groups are the graph's scaling groups, Pods their pods, owned by UID. [Planned] ones among them do not exist yet.
	Groups []*trellisv1alpha1.ScalingGroup
	Pods   []*corev1.Pod
	// ClusterTopology is the ClusterTopology the graph names, as it is now; nil when there is none.
	ClusterTopology *grovev1alpha1.ClusterTopology
	// Record is the content of the GraphPlacement; nil if placements are not recorded.
	Record *assignment.Record
	// Admission is what the API server's admission looks at for pods that are still to be made: RuntimeClasses, LimitRanges.
	Admission newpod.Objects
	// Spent are the recorded attempts that were carried out: replicas without pods are not created at these again.
	Spent map[Key]int32
	// Unfinished is why nothing of the graph is planned yet: its constraint is resolved anew, or recorded gangs are released; "" for nothing.
	Unfinished string
	// Releasing are the domains of pods that are being released but may still look gated, by pod ID.
	Releasing map[string]topology.Path
	// Idle are released pods that nothing tries to bind, by pod ID, and why.
	Idle map[string]string
	// Preempting are released pods for which others have to leave, by pod ID, and who.
	Preempting map[string]string
	// Unschedulable are released pods that their scheduler refuses, by pod ID, with its words.
	Unschedulable map[string]string
	// NotEnding are pods that were deleted and do not end in time, by pod ID, in words; see [NotEnding].
	NotEnding map[string]string
	// Avoid are hosts that others have not left in time for a replica, by replica as [Of] names it.
	Avoid map[string][]string
	// Refused are the places that a scheduler refused pods in, by the digest of their shape.
	Refused map[string][]placement.RefusedPlace
	// Failing is why releases of the graph fail repeatedly; "" when they do not.
	Failing string
	// Bars is why nothing of the graph is released now; "" when it may be. Objections are what the scheduler that is to bind the pods holds
	// against released ones.
	Bars       string
	Objections map[types.UID]Objection
}

// Objection is what keeps a released pod from being bound.
type Objection struct {
	// Message for the user.
	Message string
	// Passing: as a rule it is over in a moment, so it is not shown. It counts only when it stays: then the gang is requeued.
	Passing bool
	// Anywhere: it would be the same at any other place, so the gang is not evicted and requeued, however long it stays.
	Anywhere bool
}

// Pin is where one pod is to be bound.
type Pin struct {
	// Gang the pod is released with.
	Gang string
	// Attempt is the number of placements of its replica, with this one; 0 if placements are not recorded.
	Attempt int32
	// Labels every node of its domain carries: the whole path from the broadest level down.
	Labels map[string]string
	// Node is the planned host.
	Node string
	// Preempts: others have to free capacity. Wide are then the labels of the widest domain that Trellis has to hold the pod to, where the
	// scheduler that binds it holds it to the narrower ones and chooses the victims.
	Preempts bool
	Wide     map[string]string
	// Apart: the other pods of its replica are to be on other hosts, which only the pins to hosts ensure.
	Apart bool
	// Graph is the deployment's name, which labels may hold shortened.
	Graph string
	// PodLabels and PodAnnotations are what a placer has only released pods carry.
	PodLabels, PodAnnotations map[string]string
}
