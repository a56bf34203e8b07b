// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podgroup places gangs by Kubernetes' own PodGroup API (1.37 and later, behind feature gates).
//
// The planner chooses and pins as under Gates; the kube-scheduler takes the gang all or nothing. Each replica is a PodGroup. The base gang
// of a graph in one domain is a tree, so that its replicas go together; what comes later is on its own:
//
//	CompositePodGroup llm-3f9a1c0b2d   all 2 groups, one zone
//	├── PodGroup llm-9984-decode-0-x7k2p     all 2 pods, one rack
//	└── PodGroup llm-9999-frontend-0-8fq4z   1 pod
//	PodGroup llm-9984-decode-1-m2v9c         all 2 pods, one rack; pinned to the graph's zone
//
// A pod names its group when it is created and never again, so the name is made then, a new one for each generation of a replica: a group
// whose rack is full would hold its successors there. The groups follow when the gang is placed, before the first of its pods is let
// go. Until the last is, the scheduler leaves the whole tree alone, since one gated pod holds all of it: the gang is released as one. For
// the same reason a later replica is never in the tree.
//
// What the API does not do is in the pins, which are the plan's, down to the domain of each replica: preferred levels, the path above a
// rack (the scheduler takes racks of one name in two zones for one), look-ahead, tight packing of GPUs, and the anchor of later replicas.
// So a gang that the scheduler took without its groups would still sit right.
//
// Groups belong to their pods and the tree to its groups; the garbage collector deletes them, and nothing here has to.
package podgroup
