// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package capacity decides which nodes to request from an autoscaler when gangs wait. Autoscalers ignore pods with a scheduling gate, so a
// waiting gang alone causes no new node. The package only decides; it has no clients and no clock.
//
// Capacity is requested for a gang as a unit, in one of two ways:
//
//   - [KindPlaceholders]: pods of low priority with the shapes of the gang's pods, for which any autoscaler adds nodes. The planner counts
//     them as free capacity, and they are deleted before a gang is released to their nodes.
//   - [KindProvisioningRequest]: an object of Cluster Autoscaler's API, which adds the nodes for all pods or for none.
//
// An autoscaler knows only some labels of the nodes that it adds, usually the zone and not the rack. So the request contains the part of
// the gang's domain that a new node can have: the pods of a gang that needs one rack are requested in one zone. The planner then determines
// whether the new nodes hold the gang in one rack.
//
//	llm: Worker, 2 pods x 8 nvidia.com/gpu in one rack       ask 4f0c9e21d7: 2 pods x 8 nvidia.com/gpu, together in one topology.kubernetes.io/zone
//
// A [Planner] limits the pods of all requests, and each request to [Patience]; the pause before each retry of a gang doubles. Namespaces
// take turns and share the limit. Retries come after first requests, so that unsatisfiable gangs do not block others. Every fourth request
// is for the namespace with the oldest request, regardless of priority:
//
//	bound 4; team-a has a1, a2, a3 and team-b b1, of 2 pods each; no node comes for a1:     asked for are a1 b1, then a2 a3, then a1
//
// No capacity is requested for gangs that fit no node shape. A request ends when its gang is placed or deleted, or needs other capacity:
// the name of a request is a hash of its content.
package capacity
