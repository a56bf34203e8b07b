// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package topologies resolves the name of a topology: to the ClusterTopology, or else to Grove's ClusterTopologyBinding (package
// topologybinding). Its callers read both kinds as ClusterTopologies, and need no code for Bindings.
//
//	Reader  reads past the cache                  admission
//	Cache   gets, lists and watches in the cache  controllers, the scheduler
//
// A cluster may serve Bindings from its start, later, only for some time, or never. A Cache checks this periodically, and reads Bindings
// while they are served.
package topologies
