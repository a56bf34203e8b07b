// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package repack is kubectl trellis repack: it finds the replicas that would have to move to free a place for a waiting deployment, or to
// free whole domains.
//
// It reads the cluster, files, or both, as package plan does. [Build] plans the deployment as the operator would, searches for moves on the
// same copy of the cluster (package whatif), and drops the plan and the moves. Without --apply, the command writes nothing. With --apply,
// it requests moves from the operator with an annotation of pods (package leaving): with --for the first move, with --free all moves, after
// it has cordoned the nodes of the domains.
package repack
