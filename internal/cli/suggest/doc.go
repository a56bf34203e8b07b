// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package suggest is kubectl trellis topology suggest: it proposes a ClusterTopology from the labels of the nodes.
//
// It lists the nodes of the cluster, or reads them from files. Package hierarchy proposes the hierarchy. The text is a manifest that can
// be applied unchanged, with advice in its comments.
package suggest
