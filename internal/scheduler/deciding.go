// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

// deciding is about the pods of a graph that are being released and decide domains. A plan that is made before they are released would take
// the domains for decided, and another leader may have decided otherwise.
type deciding struct {
	pods int
	// asked: the graph was due meanwhile.
	asked bool
}
