// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package hierarchy derives the network hierarchy from the labels of nodes.
//
// Providers and operators label nodes with their location under different keys. This package knows these keys and their order ([Look]),
// proposes a ClusterTopology from the labels of a cluster ([Propose]), and finds the level that a given topology lacks ([FindOmitted]):
//
//	labels      zone=a block=1 rack=1     zone=a block=2 rack=1
//	levels      zone > rack               both nodes have the path a/1, in two racks of two blocks
//	found       rack a/1 covers 2 places: its nodes have 2 values of label block (1, 2)
//
// A call reads every label of every node once. It reads each label that is broader than a level once more.
package hierarchy
