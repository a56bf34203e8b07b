// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

// deciding counts the writes in progress that determine domains of a graph: releases of pods, and writes of the record. The graph is not
// evaluated until these writes end. A plan would treat the domains as final, but another leader may have chosen other domains.
type deciding struct {
	pods int
	// asked: the graph became due during the writes, and is evaluated when they end.
	asked bool
}
