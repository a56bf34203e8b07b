// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package creationturns orders the creation of gangs in a namespace where existing pods may cause a refusal: where a ResourceQuota counts
// pods, and after a refused create. There, one gang is completed before the next one is begun. The pods of an incomplete gang without the
// turn are deleted, so that incomplete gangs hold no quota.
//
// The order: the gang that has the turn; successors of replicas that served; higher priority; gangs with existing pods; the older
// deployment. A gang that lacks quota reserves the remaining quota, so that smaller gangs after it do not use it up. A gang larger than a
// quota reserves nothing.
//
//	quota 16 GPUs, 8 used:   g1 needs 16   waits, and reserves the remaining 8
//	                         g2 needs 8    waits behind g1
//	                         g3 needs 32   waits, reserves nothing: the quota is 16
//	                         g4 needs 0    is created
//
// evaluate decides and is pure. [Turns] stores the wants of each scaling group. No state has to survive a restart: each reconcile of a
// group states its wants, and its pods show the existing gangs.
package creationturns
