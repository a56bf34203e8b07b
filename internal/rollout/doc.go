// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rollout decides which replicas of one component are removed and which are created. Scaling, rolling updates, restarts and repair
// are decided together, so that they do not conflict. The package is pure: its input is the state of the replicas, and its output is the
// next step with explanations for people. The caller executes the step, observes the replicas again, and asks for the next step. The same
// states always give the same step.
//
// With R replicas wanted, at most U (MaxUnavailable) of them unavailable, and at most S (MaxSurge) more than R while an update runs:
//
//	floor    R - U        available replicas that an update leaves alone
//	ceiling  R + S        replicas while some run an older revision; R otherwise
//	create   min(R - current, ceiling - running) replicas
//
//	R=3 U=0 S=1           0 old  1 old  2 old              running 3, ceiling 4: create replica 3
//	                      0 old  1 old  2 old  3 current   3 serves, so 4 available > 3 floor: remove replica 2
//	                      0 old  1 old         3 current   2 is gone: create replica 2, in its former place
//	                      ...
//	                             1 cur  2 cur  3 current   done; the next update begins with ordinal 0
//
// A replica keeps its ordinal for life, whatever happens to other replicas. A replacement in place gets the ordinal of its predecessor, and
// so the same pod names. A surplus replica gets the lowest free ordinal. So ordinals may have gaps, and an ordinal is always below R + S
// when its replica is created.
//
// A replica that has to leave its nodes (Group.Leaving) is replaced while the wanted number of replicas keep serving: one more replica is
// created first. When the new replica serves, the leaving replica is removed. Without capacity for one more replica, the leaving replica is
// removed in place once it is overdue.
//
//	R=3 U=1 S=0           0  1  2 leaves                   running 3, ceiling 4: create replica 3
//	                      0  1  2 leaves  3                 4 available > 3 wanted: remove replica 2
//
// The workers of a graph change together from one generation to the next. InStep decides how far the update of each component may go, and
// returns a Step for each component. The component's own plan stays within its Step: it keeps the given number of available replicas of
// older revisions, and creates at most the given number of replicas of the new revision.
//
// A replica that is not placed yet, for example a surplus replica in a full cluster, does not block the update. Replacements that U allows
// continue alongside it, and the first replica that finds capacity is used. The rollout is Blocked, with an explanation for people, only if
// neither the replacements nor the waiting replica can proceed. If the waiting replica lacks quota (LacksQuota), the remaining update
// replaces one replica at a time in place, within its existing quota.
package rollout
