// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package validation holds every admission rule as a named check in a flat list.
//
// The rules are asked for in three places: by the webhook, by the guard inside Reconcile for objects that came in while there was no
// webhook, and by `kubectl trellis plan`, where no API server has looked at all. So the list is complete by itself: it repeats, in the
// same words, what the CEL rules of the CRDs say, and adds what needs more than one object.
//
//	Graph, Topology              what the object alone decides          webhook, guard, plan
//	GraphCreate                  what only new objects must keep        webhook on create, plan
//	GraphUpdate, TopologyUpdate  what may not change, ratcheted         webhook
//	GroveImmutable               what Grove cannot change               webhook
//	GraphTopology                the graph against its ClusterTopology  webhook on create, plan
//	GraphWarnings, …Warnings     accepted, but the user should know     webhook, plan
//
// A check returns field errors: the path, what is wrong, and the fix. For example
//
//	spec.services[VllmWorker].topologyConstraint.packDomain: Invalid value: "zone": hierarchy violation: ... is broader than spec-level "rack" ...
//
// Nothing here reaches the cluster, takes a context or looks at the time. Nothing here panics, whatever the object.
package validation
