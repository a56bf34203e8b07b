// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package claims counts the devices that pods claim (resource.k8s.io/v1): by ResourceClaims, by claims that are made from a template for
// each pod, and by resources that a DeviceClass serves. It is a [topology.Binder]. What devices a claim gets on a node is answered by an
// [Allocator]; the one of the kube-scheduler is in internal/claims/allocator.
//
// # Idea
//
// Pods with the same claims are a class. For each class and node the allocator is asked how many pods the node holds, given the devices
// that allocated claims and released pods have: that bounds the counts in domains ([topology.Counter]). While the plan puts pods on nodes,
// each takes the devices that the allocator gives it, in the order in which they come, and gives them back when it is taken off.
//
//   - The kube-scheduler decides in which order it binds the pods of a gang. Where pods of several classes share a node, or
//     devices that several nodes reach, every order has to work.
//   - A claim that several pods share is allocated for the first of them. The others go where the allocation can be used.
//   - Devices that several nodes reach are counted over all of them.
//
// # Cost
//
// Nodes whose devices are alike, in all that the claims can tell apart, are asked about once, and the answers are kept from plan to plan.
// So a plan costs one look at each node, and few allocations. Attributes that no selector and no constraint of the claims names, such as
// the UUIDs of devices, tell no nodes apart.
package claims
