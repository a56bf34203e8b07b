// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package constraint determines the constraint by which a deployment is packed:
//
//	StatementOf   the constraint that a deployment states, in fields or annotations
//	Of            the resolved constraint of every component: frozen, else stated, else a default topology
//	OfGraph       the part of a resolved constraint that a scheduler applies to all pods together; OfComponent, to each replica
//
// Fields name domains. Annotations, as in KAI Scheduler and Run:ai, name node label keys:
//
//	kai.scheduler/topology: gpu-racks                              topologyProfile: gpu-racks
//	kai.scheduler/topology-required-placement: example.com/zone    packDomain: zone
//	kai.scheduler/topology-preferred-placement: example.com/rack   preferredPackDomain: rack
package constraint
