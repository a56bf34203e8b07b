// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

// deciding counts the writes in progress that determine domains of a graph: releases of pods, and writes of the record. The graph is not
// evaluated meanwhile: a plan would consider these domains final, but another leader may have chosen other domains.
type deciding struct {
	pods int
	// asked: the graph became due meanwhile, and is evaluated afterwards.
	asked bool
}
