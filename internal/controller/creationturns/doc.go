// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package creationturns orders the creation of gangs in a namespace where a create may be refused for what exists already: where a
// ResourceQuota counts pods, and after a refusal. There, one gang is completed before the next one is begun, and a gang that is neither
// complete nor has the turn gives its pods back, so that no gang holds quota that only a complete one can use.
//
// The order: the gang that has the turn; successors of replicas that served; higher priority; gangs of which pods exist; the older
// deployment. A gang that lacks quota keeps what is left of it for itself, so that smaller gangs behind it do not use it up. A gang that
// is larger than a quota keeps nothing.
//
//	quota 16 GPUs, 8 used:   g1 needs 16   waits, and keeps the 8 that are left
//	                         g2 needs 8    waits behind g1
//	                         g3 needs 32   waits, keeps nothing: the quota is 16
//	                         g4 needs 0    is created
//
// evaluate decides; it is pure. [Turns] stores what each scaling group wants. Nothing has to survive a restart: each group states its wants
// in each reconcile, and what exists of gangs is read from their pods.
package creationturns
