// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package explain says of one deployment where each replica sits or why it waits: kubectl trellis explain.
//
// [Read] reads a [Subject], [Build] makes an [Explanation] of it and [Explanation.Text] renders that; the last two are pure. What waits
// is planned again on the snapshot, with the call that the operator makes, and dropped again. So the numbers are those of now, and
// the report also shows what the operator itself reported last, and whether the two differ.
//
// The output is bounded on any cluster: replicas that have everything in common are one row, and of everything else the first few are
// shown and the rest counted.
package explain
