// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package queue is kubectl trellis queue: the deployments that wait to be placed, in the order in which the operator plans them.
//
//	#  GRAPH        PRIORITY  WAITING  REASON
//	1  team-b/eval      1000  2m       InsufficientCapacity
//	   1 of 2 packed replicas are placed. Worker-1: needs 2 pods x 8 nvidia.com/gpu in one rack; ...
//
// What waits, since when and why is the condition Placed. The order is that of the operator's loop: higher priority first, and within one
// priority the namespaces in turn, each with its oldest first. A deployment that does not fit does not block those behind it.
package queue
