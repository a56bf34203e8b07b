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

// Observation is the input of one evaluation of a graph. The scheduler sets all fields. Package whatif omits the fields about releases,
// because it releases no pods.
type Observation struct {
	DGD *nvidiav1beta1.DynamoGraphDeployment
	// Groups are the graph's scaling groups, and Pods are the pods that these groups own, by UID. Pods may include [Planned] pods, which do
	// not exist yet.
	Groups []*trellisv1alpha1.ScalingGroup
	Pods   []*corev1.Pod
	// ClusterTopology is the current ClusterTopology that the graph names; nil when there is none.
	ClusterTopology *grovev1alpha1.ClusterTopology
	// Record is the content of the GraphPlacement; nil if placements are not recorded.
	Record *assignment.Record
	// Admission has the objects that the API server's admission reads for new pods, such as RuntimeClasses and LimitRanges.
	Admission newpod.Objects
	// Spent has, by replica, the last attempt whose pods the operator has seen or has begun to release or create. Trellis does not create
	// the pods of a replica again at a spent attempt.
	Spent map[Key]int32
	// Unfinished is the reason why nothing of the graph is planned yet; "" for none. Either the graph's constraint is being resolved anew,
	// or recorded gangs are being released.
	Unfinished string
	// Releasing are the domains of pods whose release is under way, by pod ID. In the cache, these pods may still have the gate.
	Releasing map[string]topology.Path
	// Idle has, by ID of a released pod, the reason why the pod's reservation has ended, for example because no scheduler tries to bind the
	// pod.
	Idle map[string]string
	// Preempting has, by the ID of a released pod, the message about the preemption victims that must leave for the pod.
	Preempting map[string]string
	// Unschedulable are the messages with which a scheduler refuses released pods, by pod ID.
	Unschedulable map[string]string
	// NotEnding are messages about deleted pods that do not terminate in time, by pod ID; see [NotEnding].
	NotEnding map[string]string
	// Avoid are the hosts that preemption victims have not left in time for a replica, by the replica's name (see [Of]).
	Avoid map[string][]string
	// Refused are the places where a scheduler refused pods of a shape, by the digest of the shape.
	Refused map[string][]placement.RefusedPlace
	// Failing is the reason why releases of the graph fail repeatedly; "" when they do not.
	Failing string
	// Bars is the reason why no pod of the graph is released now; "" when pods may be released. Objections are the reasons why a scheduler
	// does not bind released pods, by pod UID.
	Bars       string
	Objections map[types.UID]Objection
}

// Objection is a scheduler's objection to binding a released pod.
type Objection struct {
	// Message is the text for the user.
	Message string
	// Passing: the objection usually ends within a moment, so it is not shown. If the objection persists, the gang is requeued.
	Passing bool
	// Anywhere: the objection would be the same at any other place, so the gang is not evicted and requeued, however long the objection
	// persists.
	Anywhere bool
}

// Pin describes the place to which one pod is to be bound.
type Pin struct {
	// Gang is the name of the gang with which the pod is released.
	Gang string
	// Attempt is the number of placements of the pod's replica, including this placement; 0 if placements are not recorded.
	Attempt int32
	// Labels are the labels that every node of the domain has: the entire path from the broadest level down.
	Labels map[string]string
	// Node is the planned host.
	Node string
	// Preempts: other pods must be preempted for this pod. In this case, Wide has the labels of the widest domain to which Trellis itself
	// must pin the pod. Wide is for a scheduler that chooses the victims and enforces the narrower domains itself.
	Preempts bool
	Wide     map[string]string
	// Apart: the pods of the replica must be on different hosts. Only pins to hosts ensure this.
	Apart bool
	// Graph is the full name of the deployment. Labels may contain only a shortened form of this name.
	Graph string
	// PodLabels and PodAnnotations are the labels and annotations that the provider adds only to released pods.
	PodLabels, PodAnnotations map[string]string
}
