// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package placement decides which network domain, and there which hosts, the replicas of a deployment go to, all or nothing, or says in
// numbers why not. It is pure: the cluster comes as a [topology.Cluster], the deployment as a [Demand], and the answer is a [Result]; the
// rules are in docs/placement.md.
//
// # Idea
//
// [PlanGraph] first fixes the graph domain if the deployment level asks for one: each promising domain is tried for real, base gang first,
// then every other replica; the one that holds most replicas wins. Every gang is a tree of groups ([Group]), each with the level whose one
// domain must hold it, and is placed by one search:
//
//   - a group goes to its former domain, else to the domain that leaves its sub-domains whole and is tightest for the scarcest shape, at
//     the preferred level first and then climbing (choices);
//   - what is hard is placed first: fixed groups, narrow levels, large shares, scarce shapes;
//   - pods of one shape are spread over as few sub-domains and hosts as possible (fill);
//   - when something finds no capacity the search goes back to the choice before it: in a first pass to domains only, in a second pass to
//     hosts too. Domains and hosts that are alike are tried once. The second pass is complete: it ends with a packing if there is one,
//     with a proof that there is none, or with the budget, which is a reason of its own ([CodeBudgetExhausted]).
//
// # Cost
//
// A gang whose pods have one shape never needs the second pass. Choosing its domain looks at the classes of alike domains that the view
// keeps ([topology.View.Classes]), not at domains or nodes, so the cost per gang depends on its pods and on the hosts of the domain it
// gets, not on the size of the cluster. With replicas to look ahead to, all domains of the level are looked at once. A refusal looks at
// the domains of the level, and at the hosts of the closest one.
//
// # Example
//
// Levels zone > rack, hosts of 8 GPUs, free ones shown; a graph that requires one zone, with two decode replicas of two 8-GPU pods, each in
// one rack, and one router of 2 GPUs anywhere in the zone:
//
//	zone-a  rack-1: 8 8   rack-2: 8 4       base gang (decode-0 + router-0) fits, decode-1 does not
//	zone-b  rack-1: 8 8   rack-2: 8 8 2     holds all: the graph domain, although zone-a is tighter
//
//	decode-0 -> zone-b/rack-1    router-0 -> zone-b/rack-2, third host    decode-1 -> zone-b/rack-2, first two hosts
//
// Were rack-2 of zone-b cordoned host by host, decode-1 would be refused with "needs 2 pods x 8 nvidia.com/gpu in one rack inside zone-b;
// zone-b/rack-2 holds 1 of 2 (1 host cordoned, ...); 1 other rack holds fewer".
package placement
