// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package drain is kubectl trellis drain. It cordons nodes, marks them with an annotation, and waits until the operator has moved all
// movable replicas of inference graphs off them. The operator moves the replicas (package leaving), so the command evicts nothing. At its
// end, the command removes the annotation, but the nodes stay cordoned.
package drain
