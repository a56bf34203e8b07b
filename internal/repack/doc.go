// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package repack finds the cheapest set of running replicas whose moves free a place for a gang that waits ([Find]), or free whole domains
// ([Free]). It is pure: the cluster is a copy that the caller may change and that is left as it was, replicas and gangs are groups of
// package placement, and the time is a value. It moves nothing.
//
// # Idea
//
// A set of moves frees a domain when, with these replicas taken off the copy, one search of the planner places the gang in that domain and
// every one of the replicas elsewhere in the domain of its own graph, all together. Of all such sets the one of the least [Cost] is taken:
// GPUs that restart, then replicas, then the highest priority.
//
// The search is best first over pairs of a domain and a set of replicas, ordered by a lower bound of the cost:
//
//   - of a domain that was not looked at yet: the GPUs that the gang needs there and that are not free, which the views of package topology
//     count without a look at a host;
//   - of a set: its own cost, and for each host the cheapest replicas whose end has it take another pod of the gang. A replica on several
//     hosts counts in equal shares on each, so that nothing is counted twice;
//   - only a set by which the counts suffice is planned on the copy. The first one that has a plan is the cheapest.
//
// # Exactness and cost
//
// With at most [ExactReplicas] replicas that may move, every set of them is in the search; on at most [ExactHosts] hosts the answer is the
// cheapest one whenever there is one. With more replicas, a set has only replicas of the domain that is freed, and replicas that have no
// place elsewhere now are left out. On more hosts, the numbers of sets and plans are bounded ([Result].Cut). The cost of a search then
// depends on the number of domains and on the hosts of the domains that are looked at.
//
// With [Limits].InOrder, as in the operator, a set counts only if the place of each replica is free while it runs. Three plans are tried
// for a set: all at once, the gang first, and the replicas first. On at most ExactHosts hosts that finds moves in 97 of 100 cases in which
// there are some, and those of least cost.
//
// # Example
//
// Racks of two hosts with 8 GPUs; a gang of two 8-GPU pods waits for a rack. A and B are replicas of 4 GPUs each, C has 8:
//
//	rack-1: A, -    rack-2: B, C    rack-3: C', 4 GPUs used by others
//
//	rack-1: A moves to the free half of rack-3's second host: 4 GPUs restart. The gang gets rack-1.
package repack
