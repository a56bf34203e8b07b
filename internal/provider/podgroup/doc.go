// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podgroup places gangs with Kubernetes' PodGroup API (1.37 and later, behind feature gates).
//
// The planner chooses and pins as under Gates; the kube-scheduler binds the gang as a unit. Each replica is a PodGroup. The base gang of
// a graph in one domain is a tree, so that its replicas are bound together; later replicas are separate:
//
//	CompositePodGroup llm-3f9a1c0b2d   all 2 groups, one zone
//	├── PodGroup llm-9984-decode-0-x7k2p     all 2 pods, one rack
//	└── PodGroup llm-9999-frontend-0-8fq4z   1 pod
//	PodGroup llm-9984-decode-1-m2v9c         all 2 pods, one rack; pinned to the graph's zone
//
// A pod names its group when it is created, immutably, so the name is chosen then, a new one for each generation of a replica: with the
// former name, a group whose rack is full would keep its successors there. The groups are created when the gang is placed, before its
// first pod is released. One gated pod keeps the scheduler from placing the whole tree, so the gang is released as a unit, and a later
// replica is never in the tree.
//
// The pins contain what the API lacks, down to the domain of each replica: preferred levels, the path above a rack (the scheduler takes
// racks of the same name in two zones for one), look-ahead, tight packing of GPUs, and the anchor of later replicas. So the places would
// be correct even if the scheduler ignored the groups.
//
// Pods own their groups, and groups own the tree, so the garbage collector deletes them.
package podgroup
