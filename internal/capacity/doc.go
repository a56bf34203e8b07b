// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package capacity decides which nodes Trellis requests from an autoscaler when gangs wait. Autoscalers ignore pods with a scheduling gate,
// so a waiting gang alone causes no new node. The package only makes decisions; it has no clients and no clock.
//
// Capacity is requested for a gang as a unit, in one of two ways:
//
//   - [KindPlaceholders]: pods of low priority with the shapes of the gang's pods, for which any autoscaler adds nodes. The planner treats
//     placeholders as free capacity, and they are deleted before a gang is released to their nodes.
//   - [KindProvisioningRequest]: an object of Cluster Autoscaler's API, which adds nodes for all pods or for none.
//
// An autoscaler knows only some labels of the nodes that it adds, usually the zone but not the rack. The request therefore contains only
// the part of the gang's domain that the autoscaler can provide: if a gang needs one rack, its pods are requested in one zone. The planner
// then determines whether the gang fits into one rack of the new nodes.
//
//	llm: Worker, 2 pods x 8 nvidia.com/gpu in one rack
//	ask 4f0c9e21d7: 2 pods x 8 nvidia.com/gpu, together in one topology.kubernetes.io/zone
//
// A [Planner] limits the total number of pods in all requests, and the duration of each request to [Patience]. The pause before each retry
// for a gang doubles. Namespaces take turns and share the limit. First requests come before retries, so that unsatisfiable gangs do not
// block others. Every fourth request is for the namespace whose last request is the oldest, regardless of priority:
//
//	limit 4 pods; gangs of 2 pods: a1, a2, a3 of team-a and b1 of team-b; no node is added for a1:  requests a1 b1, then a2 a3, then a1
//
// No capacity is requested for gangs that fit no node shape. A request ends when its gang is placed or deleted, or when the gang needs
// other capacity, because the name of a request is a hash of its content.
package capacity
