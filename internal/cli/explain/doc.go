// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package explain is kubectl trellis explain: it shows for one deployment where each replica is placed, or why it waits.
//
// [Read] reads a [Subject], [Build] makes an [Explanation] from it, and [Explanation.Text] renders the explanation. Build and Text are
// pure. Build plans the waiting replicas again on the snapshot, with the operator's own code, and drops the plan. So the numbers are
// current. The report also shows the operator's last report, and whether the plan differs from it.
//
// The length of the text is bounded for any cluster: equal replicas share a row, and other lists show only their first entries.
package explain
