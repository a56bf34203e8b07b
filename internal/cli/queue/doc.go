// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package queue is kubectl trellis queue: it lists the waiting deployments in the order in which the operator plans them.
//
//	#  GRAPH        PRIORITY  GPUS  WAITING  REASON
//	1  team-b/eval      1000    16  2m       InsufficientCapacity
//	2  team-a/chat        10  8/24  5m       InsufficientCapacity
//
// The reason and the waiting time are from the condition Placed. The order is the order in which the operator plans: higher priority first,
// and within one priority round robin over the namespaces, each with its oldest deployment first. A deployment that does not fit does not
// block the deployments behind it.
package queue
