// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package tree is kubectl trellis tree: it shows where the pods of inference graphs are: zone, block, rack, host, pod.
//
// [Read] takes a [Scene] from a cluster, [Build] makes an [Overview] from it, and [Overview.Text] renders the overview. Build and Text are
// pure. Only domains with pods of the requested graphs are drawn. In each domain, one line sums up the other domains ("3 other racks"), so
// the tree grows with the graphs and not with the cluster:
//
//	DOMAIN                      GPUS  FREE  PODS
//	hall                       33/96    63
//	├── zone-0                 33/64    31
//	│   ├── rack-0             32/32     0
//	│   │   ├── host-0           8/8     0  chat: Worker-0 (leader)
//	│   │   ...
//	│   └── 1 other rack        1/32    31
//	└── 1 other zone            0/32    32
//
// A graph is shown in the levels by which it was placed, even if the ClusterTopology has changed since. The graph's ScalingGroups contain
// these levels.
package tree
