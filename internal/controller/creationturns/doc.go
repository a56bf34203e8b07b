// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package creationturns orders the creation of gangs in a namespace where existing pods may cause a refusal: where a ResourceQuota counts
// pods, and after a refused create. There, one gang is completed before the next one is begun. An incomplete gang without the turn gives
// its pods back, so that incomplete gangs hold no quota.
//
// The order: the gang that has the turn; successors of replicas that served; higher priority; gangs of which pods exist; the older
// deployment. A gang that lacks quota reserves the remaining quota, so that smaller gangs behind it do not use it up. A gang larger than a
// quota reserves nothing.
//
//	quota 16 GPUs, 8 used:   g1 needs 16   waits, and reserves the remaining 8
//	                         g2 needs 8    waits behind g1
//	                         g3 needs 32   waits, reserves nothing: the quota is 16
//	                         g4 needs 0    is created
//
// evaluate decides; it is pure. [Turns] stores the wants of each scaling group. Nothing has to survive a restart: each reconcile of a group
// states its wants, and its pods show the existing gangs.
package creationturns
