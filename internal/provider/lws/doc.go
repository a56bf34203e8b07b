// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lws renders the replicas of multinode components as LeaderWorkerSets, for deployments that choose this workload.
//
//	component Decode, 2 replicas of 4 pods    ->    LeaderWorkerSet chat-decode-r0, 1 replica of size 4
//	                                              LeaderWorkerSet chat-decode-r1, 1 replica of size 4
//
// Each replica has its own set, because the replicas of one set share a template, but each replica of a component has its own domain. The
// pods equal the pods that Trellis makes itself (render.BuildPod), including the gate or the membership in a PodGroup. LeaderWorkerSet adds
// the fields that differ between pods: names, hostnames, and the index, which containers read from a label.
//
// Like a pod, a set is created once and never changed. A new revision needs a new set, and so does a replica that is no longer complete.
// The restart policy of a set recreates the whole replica when a pod is lost or a container restarts. The start-up policy is LeaderCreated:
// the workers are created before the leader is ready. Otherwise the leader alone would determine the domain.
package lws

import "k8s.io/apimachinery/pkg/runtime/schema"

// Kind of a LeaderWorkerSet.
var Kind = schema.GroupVersionKind{Group: "leaderworkerset.x-k8s.io", Version: "v1", Kind: "LeaderWorkerSet"}
