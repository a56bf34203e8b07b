// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podgroup places gangs with Kubernetes' PodGroup API (1.37 and later, behind feature gates).
//
// The planner chooses places and pins pods as under Gates; the kube-scheduler binds the gang as a unit. Each replica is a PodGroup. If the
// graph is in one domain, the PodGroups of its base gang form a tree, so that they are bound together. The PodGroups of later replicas are
// separate:
//
//	CompositePodGroup llm-3f9a1c0b2d   all 2 groups, one zone
//	├── PodGroup llm-9984-decode-0-x7k2p     all 2 pods, one rack
//	└── PodGroup llm-9999-frontend-0-8fq4z   1 pod
//	PodGroup llm-9984-decode-1-m2v9c         all 2 pods, one rack; pinned to the graph's zone
//
// A pod names its PodGroup when it is created, and the name is immutable. Trellis therefore chooses the name before it creates the pod.
// Each generation of a replica gets a new name: a PodGroup with the former name would keep the replica's next pods in the former rack, even
// if this rack is full. Trellis creates the PodGroups when the gang is placed, before it releases the gang's first pod. One gated pod keeps
// the scheduler from placing the whole tree, so Trellis releases the gang as a unit, and a later replica never joins the tree.
//
// The pins contain the constraints that the API cannot express, down to the domain of each replica: preferred levels, the path above a rack
// (the scheduler treats racks of the same name in two zones as one rack), look-ahead, tight packing of GPUs, and the anchor of later
// replicas. The places would therefore be correct even if the scheduler ignored the PodGroups.
//
// Pods own their PodGroups, and PodGroups own the root of their tree, so the garbage collector deletes them.
package podgroup
