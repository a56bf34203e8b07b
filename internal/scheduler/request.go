// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	corev1 "k8s.io/api/core/v1"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// Observation is what one graph looks like from outside. The loop decides from the same objects; a what-if brings its own.
type Observation struct {
	DGD *nvidiav1beta1.DynamoGraphDeployment
	// Groups are the graph's scaling groups, Pods their pods, owned by UID.
	Groups []*trellisv1alpha1.ScalingGroup
	Pods   []*corev1.Pod
	// Profile is the ClusterTopology the graph names, as it is now; nil when there is none.
	Profile *grovev1alpha1.ClusterTopology
}

func (o Observation) observed() observed {
	return observed{dgd: o.DGD, groups: o.Groups, pods: o.Pods, profile: o.Profile}
}

// Request is a graph in the planner's terms, as the loop would ask for it.
type Request struct {
	Graph placement.Graph
	// Blocked replicas are not planned at all, because a level they need is gone.
	Blocked []Waiting
	// Surplus replicas are more than the service wants for good, for the time of an update: nobody is notified when they are not placed.
	Surplus func(service string, ordinal int) bool
	// Wanted and Placed count the replicas that the engine places.
	Wanted, Placed int
}

// NewRequest translates a graph for the planner.
func NewRequest(o Observation) Request {
	v := newView(o.observed())
	surplus := func(service string, ordinal int) bool { return v.surplus[replicaKey{service, ordinal}] }
	return Request{Graph: v.graph, Blocked: v.blocked, Surplus: surplus, Wanted: v.wanted, Placed: v.placed}
}

// Ordinals lists the replicas of a group that are there or will be made, as the operator will decide from its pods. Of those to be made there
// are at most as many as the API allows a service.
func Ordinals(sg *trellisv1alpha1.ScalingGroup, pods []*corev1.Pod) []int {
	ordinals, _ := ordinalsOf(sg, podsByOrdinal(pods), nvidiav1beta1.MaxReplicas)
	return ordinals
}

// NewCluster returns an empty cluster cache that knows which pods stand and fall together.
func NewCluster() *topology.Cluster {
	c := topology.NewCluster()
	c.GangOf = gangOf
	return c
}

// Reserve reserves capacity for the graph's pods that are released and not bound yet.
func Reserve(c *topology.Cluster, o Observation) {
	(&Scheduler{cluster: c}).recoverReservations(o.observed())
}

// Victims names who has to free capacity, in a few words.
func Victims(p *placement.Preemption) string { return victims(p) }

// PinnedDomain is the domain that a placed replica's pods would be pinned to.
func PinnedDomain(c *topology.Cluster, levels topology.Levels, replica placement.ReplicaResult) topology.Path {
	return (&Scheduler{cluster: c}).narrowest(levels, replica)
}
