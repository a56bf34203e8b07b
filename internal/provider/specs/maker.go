// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package specs

// LeaderWorkerSet names the maker that makes each replica of a multinode component as a LeaderWorkerSet.
const LeaderWorkerSet = "LeaderWorkerSet"

// Pods names the default maker: Trellis itself.
const Pods = "Pods"

// Makers are the accepted values of the annotation trellis.dev/workload.
var Makers = []string{Pods, LeaderWorkerSet}
