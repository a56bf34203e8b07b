// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package drain is kubectl trellis drain: it cordons nodes, marks them with an annotation, and waits until no replica of an inference
// graph is left on them. The operator moves the replicas (package leaving), so the command evicts nothing. At its end it removes the
// annotation; the cordon stays.
package drain
