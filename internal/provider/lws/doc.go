// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lws renders replicas of a multinode component as LeaderWorkerSets, for deployments that ask for that workload.
//
//	component Decode, 2 replicas of 4 pods    ->    LeaderWorkerSet chat-decode-r0, 1 replica of size 4
//	                                              LeaderWorkerSet chat-decode-r1, 1 replica of size 4
//
// One set for each replica, not one with two replicas: all replicas of a set share one template, and each replica has a domain of its
// own. The pods are the same as those Trellis makes itself (graph.BuildPod), with its gate or its membership in a PodGroup, except for
// what differs from pod to pod, which LeaderWorkerSet adds: names, hostnames, and the index, which is read from its label.
//
// A set is made once and never changed, as a pod is: another revision, and a replica that is not whole any more, take a new one. Its
// restart policy has a lost pod or a restarted container end the whole replica. The start-up policy is LeaderCreated: a leader that had
// to be ready first would choose the domain alone.
package lws

import "k8s.io/apimachinery/pkg/runtime/schema"

// Kind of the workload.
var Kind = schema.GroupVersionKind{Group: "leaderworkerset.x-k8s.io", Version: "v1", Kind: "LeaderWorkerSet"}
