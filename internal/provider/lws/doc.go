// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lws renders replicas of a multinode component as LeaderWorkerSets, for deployments with that workload.
//
//	component Decode, 2 replicas of 4 pods    ->    LeaderWorkerSet chat-decode-r0, 1 replica of size 4
//	                                              LeaderWorkerSet chat-decode-r1, 1 replica of size 4
//
// Each replica has a set of its own, not one set for all: the replicas of a set share one template, but each replica of a component has
// its own domain. The pods equal those that Trellis makes itself (render.BuildPod), with the gate or the membership in a PodGroup.
// LeaderWorkerSet adds what differs between pods: names, hostnames, and the index, which is read from its label.
//
// A set is created once and never changed, like a pod: a new revision, and a replica that is no longer complete, need a new set. By its
// restart policy a lost pod or a restarted container recreates the whole replica. The start-up policy is LeaderCreated: if the leader had
// to be ready first, it would choose the domain alone.
package lws

import "k8s.io/apimachinery/pkg/runtime/schema"

// Kind of a LeaderWorkerSet.
var Kind = schema.GroupVersionKind{Group: "leaderworkerset.x-k8s.io", Version: "v1", Kind: "LeaderWorkerSet"}
