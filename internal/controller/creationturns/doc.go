// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package creationturns orders the creation of gangs in a namespace where the API server may refuse a create because of existing pods:
// while a ResourceQuota counts pods, and for five minutes after a refused create. In such a namespace, one gang at a time has the turn, and
// is completed before the next gang is begun. The pods of other incomplete gangs are deleted, so that these gangs use no quota.
//
// The order of gangs is: the gang that has the turn; successors of replicas that served; higher priority; gangs with existing pods; the
// older deployment. A gang that lacks quota reserves the remaining quota, so that smaller gangs after it do not use up this quota. A gang
// that needs more than the limit of a quota reserves nothing.
//
//	quota 16 GPUs, 8 used:   g1 needs 16   waits, and reserves the remaining 8
//	                         g2 needs 8    waits behind g1
//	                         g3 needs 32   waits, reserves nothing: the quota is 16
//	                         g4 needs 0    is created
//
// The package cannot predict other refusals, for example by a webhook that counts pods. So for five minutes after a refused create, a gang
// that never served waits while a successor of a replica that served is missing. The successor is missing while its predecessor terminates,
// or because its own create was refused less than 30 seconds ago. After a refused create, a group's successors and its other gangs pause
// independently of each other.
//
// evaluate makes the decisions and is pure. [Turns] stores the wants ([Want]) of each scaling group: the gangs that the group has to
// complete. No state has to survive a restart of the operator: each reconcile of a group passes the group's wants to [Turns.Sync], and the
// group's pods show the existing gangs.
package creationturns
