// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package hierarchy reads the network hierarchy out of the labels that nodes have.
//
// Providers and operators label nodes with their place under keys of their own. This package knows those keys and their order ([Look]),
// proposes a ClusterTopology from the labels of a cluster ([Propose]), and finds the level that a given topology lacks ([FindOmitted]):
//
//	labels      zone=a block=1 rack=1     zone=a block=2 rack=1
//	levels      zone > rack               both nodes have the path a/1, in two racks of two blocks
//	found       rack a/1 covers 2 places: its nodes have 2 values of label block (1, 2)
//
// A call reads every label of every node once, and once more each label that is broader than a level.
package hierarchy
