// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package quota decides which quota Trellis requests from Kueue for a deployment in one of Kueue's queues: one Workload per gang, created
// before Kueue sees the pods ("prebuilt"). The package only makes decisions: it has no clients and no clock.
//
// The base consists of the first minAvailable replicas of all components. The base has one Workload, so that no part of the base holds
// quota while another part waits for quota. Every other replica has its own Workload. Pods name their Workload, and the gate
// kueue.x-k8s.io/admission holds the pods until Kueue has admitted the Workload. A pod keeps its Workload for life. A successor with the
// same request joins the same Workload, so it needs no second quota.
//
//	chat: Frontend 1 replica, Worker 3 replicas of 2 pods, minAvailable 1
//	chat-base-5d41402a     podsets frontend-main-0c1d2e3f x 1, worker-leader-7a8b9c0d x 1, worker-worker-1f2e3d4c x 1
//	chat-worker-1-9b74c981 podsets worker-leader-7a8b9c0d x 1, worker-worker-1f2e3d4c x 1
//	chat-worker-2-3c59dc04 the same
package quota
