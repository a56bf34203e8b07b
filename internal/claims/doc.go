// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package claims counts the devices that pods claim (resource.k8s.io/v1): through ResourceClaims, through claims created from a template
// for each pod, and through resources that a DeviceClass serves. It implements a [topology.Binder]. An [Allocator] chooses the devices that
// a claim gets on a node; internal/claims/allocator wraps the kube-scheduler's allocator.
//
// # Idea
//
// Pods with the same claims form a class. For each class and node, the allocator determines how many pods the node holds, given the devices
// that allocated claims and released pods use. This number bounds the counts in domains ([topology.Counter]). When the plan puts a pod on a
// node, the pod takes the devices that the allocator chooses. When the plan removes the pod, these devices are free again.
//
//   - The kube-scheduler decides in which order it binds the pods of a gang. Where pods of several classes share a node, or
//     devices that several nodes can access, every order must work.
//   - A claim that several pods share is allocated for the first of them. The other pods must run where the allocation can be used.
//   - Devices that several nodes can access are counted over all these nodes.
//
// # Cost
//
// The allocator is called once for all nodes whose devices the claims cannot distinguish, and its answers are cached across plans. A plan
// therefore costs one check of each node, and few allocations. Attributes that no selector and no constraint of the claims names, such as
// the UUIDs of devices, do not distinguish nodes.
package claims
