// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package repack is kubectl trellis repack: which replicas would have to move for a deployment that waits to get its place, or for whole
// domains to become free.
//
// Reading takes the cluster, files, or both, as package plan does. [Build] plans the deployment as the operator would, looks for moves on
// the same copy (package whatif), and drops both. Nothing is written,
// except with --apply: an annotation that requests the first move of the operator (package leaving).
package repack
