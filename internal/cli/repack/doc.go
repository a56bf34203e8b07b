// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package repack is kubectl trellis repack: it finds the replicas that would have to move to give a waiting deployment a place,
// or to free whole domains.
//
// It reads the cluster, files, or both, as package plan does. [Build] plans the deployment as the operator would, searches for moves on
// the same copy (package whatif), and drops both. It writes nothing, except with --apply: an annotation that requests the first move from
// the operator (package leaving).
package repack
