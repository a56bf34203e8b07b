// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

// deciding counts the writes of a graph in progress that decide domains: releases of pods, and the record. The graph is not evaluated
// meanwhile: a plan would take these domains as decided, but another leader may have decided otherwise.
type deciding struct {
	pods int
	// asked: the graph became due meanwhile, and is evaluated afterwards.
	asked bool
}
