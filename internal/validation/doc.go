// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package validation holds every admission rule as a named check in a flat list.
//
// Three callers apply the rules: the webhook; the guard inside Reconcile, for objects created while no webhook was available; and `kubectl
// trellis plan`, for manifests that no API server has validated. The list is therefore complete: it repeats, in the same words, the CEL
// rules of the CRDs, and adds the rules that need more than one object.
//
//	Graph, Topology              rules about the object alone           webhook, guard, plan
//	GraphCreate                  rules for new objects only             webhook on create, plan
//	GraphUpdate, TopologyUpdate  immutable fields, and new errors       webhook
//	ProviderUpdate               fields that the provider fixes         webhook
//	GraphTopology                the graph against its ClusterTopology  webhook on create, plan
//	GraphWarnings, …Warnings     warnings about accepted objects        webhook, plan
//
// A check returns field errors: the path, the problem, and the fix. For example
//
//	spec.services[VllmWorker].topologyConstraint.packDomain: Invalid value: "zone": hierarchy violation: ... is broader than spec-level "rack" ...
//
// The functions of this package read no cluster, no context and no clock, and panic for no object.
package validation
