// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package topologies answers which topology has a name: the ClusterTopology, or else Grove's ClusterTopologyBinding (package
// topologybinding). Its callers read both kinds as ClusterTopologies, and need no code for Bindings.
//
//	Reader  reads past the cache                  admission
//	Cache   gets, lists and watches in the cache  controllers, the scheduler
//
// A cluster may serve Bindings from its start, later, for a time, or never. A Cache asks again and again, and reads them while they are
// served.
package topologies
