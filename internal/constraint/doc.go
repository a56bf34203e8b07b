// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package constraint answers what packs a deployment, for all who need to know:
//
//	StatementOf   what a deployment states: fields or annotations
//	Of            the constraint of every component, resolved: what is frozen, else what is stated, else a default topology
//	OfGraph       what a scheduler is asked for, of a resolved constraint, for all pods together; OfComponent, for each replica
//
// Fields name domains. Annotations, in the manner of KAI Scheduler and Run:ai, name node label keys:
//
//	kai.scheduler/topology: gpu-racks                              topologyProfile: gpu-racks
//	kai.scheduler/topology-required-placement: example.com/zone    packDomain: zone
//	kai.scheduler/topology-preferred-placement: example.com/rack   preferredPackDomain: rack
package constraint
