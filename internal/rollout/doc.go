// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rollout decides which replicas of one component go and which are made: scaling, rolling updates, restarts and repair in one
// place, so that they cannot work against each other. It is pure: states of replicas in, the next step out, with notes for people.
// The caller carries the step out, looks again, and asks again; the same states always give the same step.
//
// With R replicas wanted, at most U of them unavailable and S more than R at once while an update runs:
//
//	floor    R - U        available replicas that an update leaves alone
//	ceiling  R + S        replicas while some run an older revision; R otherwise
//	make     min(R - current, ceiling - running)
//
//	R=3 U=0 S=1           0 old  1 old  2 old              running 3, ceiling 4: make 3
//	                      0 old  1 old  2 old  3 current   3 serves, so 4 available > 3 floor: take 2
//	                      0 old  1 old         3 current   2 is gone: make 2, in its former place
//	                      ...
//	                             1 cur  2 cur  3 current   done; the next update begins with ordinal 0
//
// An ordinal is a replica's number for its life: no other replica's scaling or update changes it. A replica that is replaced in place
// gets the ordinal, and so the names, of the one before it; a surplus one gets the lowest free ordinal. So ordinals may have gaps,
// and are always below R + S as it was when the replica was made.
//
// A replica that is to leave its nodes (Leaving) is replaced while as many serve as are wanted: one more is made, and when it serves, the
// other one goes. Without capacity for one more, it goes in place once it is overdue.
//
//	R=3 U=1 S=0           0  1  2 leaves                   running 3, ceiling 4: make 3
//	                      0  1  2 leaves  3                 4 available > 3 wanted: take 2
//
// The workers of a graph change together, from one generation to the next. InStep decides how far each component may go, and the
// component's own plan goes no further: it keeps so many available replicas of older revisions, and makes so many of the new one.
//
// A replica that is not placed yet (a surplus one in a full cluster, say) holds nothing up: what U allows continues alongside it, and
// whichever replica finds capacity first takes part. Only when neither can move is the rollout Blocked, with a sentence that reports it.
// Where that is for want of quota (LacksQuota), the rest of the update replaces one replica at a time in place, within the quota that it
// has.
package rollout
