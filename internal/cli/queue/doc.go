// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package queue is kubectl trellis queue: the deployments that wait to be placed, in the order in which the operator plans them.
//
//	#  GRAPH        PRIORITY  GPUS  WAITING  REASON
//	1  team-b/eval      1000    16  2m       InsufficientCapacity
//	2  team-a/chat        10  8/24  5m       InsufficientCapacity
//
// What waits, since when and why is the condition Placed. The order is that of the operator's loop: higher priority first, and within one
// priority the namespaces in turn, each with its oldest first. A deployment that does not fit does not block those behind it.
package queue
