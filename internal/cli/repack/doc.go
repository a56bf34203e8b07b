// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package repack is kubectl trellis repack: it finds the replicas that would have to move to free a place for a waiting deployment, or to
// free whole domains.
//
// It reads the cluster, files, or both, as package plan does. [Build] plans the deployment as the operator would, searches for moves on the
// same copy of the cluster (package whatif), and drops the plan and the moves. Without --apply, the command writes nothing. With --apply,
// it writes an annotation that requests the first move from the operator (package leaving).
package repack
