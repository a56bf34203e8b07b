// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lws renders replicas of a multinode service as LeaderWorkerSets, for deployments that ask for that workload.
//
//	service Decode, 2 replicas of 4 pods    ->    LeaderWorkerSet chat-decode-0, 1 replica of size 4
//	                                              LeaderWorkerSet chat-decode-1, 1 replica of size 4
//
// One set for each replica, not one with two replicas: all replicas of a set share one template, and each replica has a place of its
// own. The pods are the same as those Trellis makes itself (graph.BuildPod), with its gate or its membership in a PodGroup, except for
// what differs from pod to pod, which LeaderWorkerSet adds: names, hostnames, and the index, which is read from its label.
//
// A lost pod or a restarted container takes the whole replica with it, which is how these sets keep a replica in one piece. The start-up
// policy is LeaderCreated: a leader that had to be ready first would choose the domain alone.
package lws

import "k8s.io/apimachinery/pkg/runtime/schema"

// Kind of the workload.
var Kind = schema.GroupVersionKind{Group: "leaderworkerset.x-k8s.io", Version: "v1", Kind: "LeaderWorkerSet"}

// Workload is the value of AnnotationWorkload on a deployment that chooses LeaderWorkerSets for its multinode services.
const (
	AnnotationWorkload = "trellis.dev/workload"
	Workload           = "LeaderWorkerSet"
)

// What LeaderWorkerSet puts on its pods.
const (
	// LabelSet is the name of the set.
	LabelSet = "leaderworkerset.sigs.k8s.io/name"
	// LabelIndex is the pod's index in the replica, 0 for the leader.
	LabelIndex = "leaderworkerset.sigs.k8s.io/worker-index"
	// envLeaderAddress comes before all other variables of a container.
	envLeaderAddress = "LWS_LEADER_ADDRESS"
)
