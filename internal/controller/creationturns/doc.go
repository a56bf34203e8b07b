// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package creationturns orders the creation of gangs in a namespace where a create may be refused because of existing pods. This is so
// while a ResourceQuota counts pods, and for some time after a refused create. In such a namespace, one gang is completed before the next
// gang is begun. The pods of an incomplete gang without the turn are deleted, so that incomplete gangs hold no quota.
//
// The order of gangs is: the gang that has the turn; successors of replicas that served; higher priority; gangs with existing pods; the
// older deployment. A gang that lacks quota reserves the remaining quota, so that smaller gangs after it do not use up this quota. A gang
// larger than a quota reserves nothing.
//
//	quota 16 GPUs, 8 used:   g1 needs 16   waits, and reserves the remaining 8
//	                         g2 needs 8    waits behind g1
//	                         g3 needs 32   waits, reserves nothing: the quota is 16
//	                         g4 needs 0    is created
//
// Other causes of refusals, for example a webhook that counts pods, are not known before they refuse a create. So for some time after a
// refused create, a gang that never served waits while a successor of a replica that served is missing. The successor is missing while its
// predecessor terminates, or because its own create was refused less than 30 seconds ago. After a refused create, a group's successors and
// its other gangs pause independently of each other.
//
// evaluate makes the decisions and is pure. [Turns] stores the wants of each scaling group. No state has to survive a restart of the
// operator: each reconcile of a group states its wants again, and the group's pods show the existing gangs.
package creationturns
