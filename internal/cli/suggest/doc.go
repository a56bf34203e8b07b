// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package suggest is kubectl trellis topology suggest: a ClusterTopology from the labels of the nodes.
//
// Reading lists the nodes of the cluster, or takes them from files. The hierarchy is proposed by package hierarchy. The text is a manifest:
// it can be applied as it is, and what is to be looked at stands in its comments.
package suggest
