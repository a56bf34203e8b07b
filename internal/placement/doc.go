// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package placement chooses the network domain and the hosts for the replicas of a deployment. It places all pods of a gang or none,
// and explains a refusal in numbers. The package is pure: its input is a [topology.Cluster] and a [Demand], and its output is a
// [Result]. docs/placement.md has the rules.
//
// # Idea
//
// If the deployment requires a level, [PlanGraph] first chooses the graph domain: in each promising domain, it tries to place the base gang
// and then every other replica, and it chooses the domain that holds most replicas. Every gang is a tree of groups ([Group]). Each group
// has a level, and one domain of this level must hold the group. One search places the gang:
//
//   - a group goes to its former domain if it fits there. Otherwise it goes to the domain in which it uses the fewest sub-domains and which
//     is tightest for the scarcest shape, at the preferred level first, then at broader levels (choices);
//   - the hardest parts are placed first: groups tied to a domain, narrow levels, large shares of the capacity, scarce shapes;
//   - pods of one shape are distributed over as few sub-domains and hosts as possible (fill);
//   - when a part finds no capacity, the search backtracks to the previous choice. The first pass backtracks to domains only, the second
//     pass to hosts too. The search tries only one of several domains or hosts that are alike. The second pass is complete: it ends with a
//     packing, with a proof that there is none, or with [CodeBudgetExhausted] when the budget is used up.
//
// # Cost
//
// A gang whose pods have one shape never needs the second pass. Its domain is chosen by classes of alike domains that the view keeps
// ([topology.View.Classes]), so the cost per gang depends on its pods and on the hosts of its domain, not on the size of the cluster. With
// look-ahead, all domains of the level are examined once. A refusal examines the domains of the level, and the hosts of the closest domain.
//
// # Example
//
// Levels zone > rack, hosts of 8 GPUs, shown by their free GPUs; a graph that requires one zone, with two decode replicas of two 8-GPU
// pods, each in one rack, and one router of 2 GPUs anywhere in the zone:
//
//	zone-a  rack-1: 8 8   rack-2: 8 4       base gang (decode-0 + router-0) fits, decode-1 does not
//	zone-b  rack-1: 8 8   rack-2: 8 8 2     holds all: the graph domain, although zone-a is tighter
//
//	decode-0 -> zone-b/rack-1    router-0 -> zone-b/rack-2, third host    decode-1 -> zone-b/rack-2, first two hosts
//
// If the first host of rack-2 of zone-b were cordoned, decode-1 would be refused with "needs 2 pods x 8 nvidia.com/gpu in one rack inside
// zone-b; zone-b/rack-2 holds 1 of 2 (1 host cordoned, ...); 1 other rack holds fewer".
package placement
