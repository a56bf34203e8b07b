// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import "time"

// unbound notes since when something has stood against binding a released pod, by pod ID.
type unbound struct {
	// stuck pods are unschedulable, by what their scheduler says on them; the provider's scheduler objects to others in objects of its own.
	stuck, objected map[string]time.Time
	// parted pods are released, bound or not, and the rest of their replica, which was never whole, finds no capacity.
	parted map[string]parted
	// requeued are the pods of gangs that are requeued, until they are gone, and whether they are evicted.
	requeued map[string]bool
}

type parted struct {
	since time.Time
	why   string
}

func newUnbound() unbound {
	return unbound{stuck: map[string]time.Time{}, objected: map[string]time.Time{}, parted: map[string]parted{}, requeued: map[string]bool{}}
}

// set notes or ends one of both; a state that is known keeps its time.
func set(since map[string]time.Time, id string, stands bool, now time.Time) {
	if !stands {
		delete(since, id)
	} else if _, known := since[id]; !known {
		since[id] = now
	}
}

func (u *unbound) setStuck(id string, stands bool, now time.Time) { set(u.stuck, id, stands, now) }

func (u *unbound) setObjected(id string, stands bool, now time.Time) {
	set(u.objected, id, stands, now)
}

// setParted notes why the rest of the pod's replica is refused; "" when it is not.
func (u *unbound) setParted(id, why string, now time.Time) {
	was, known := u.parted[id]
	switch {
	case why == "":
		delete(u.parted, id)
	case known:
		u.parted[id] = parted{since: was.since, why: why}
	default:
		u.parted[id] = parted{since: now, why: why}
	}
}

// isStuck says whether the pod, or the rest of its replica, is unschedulable.
func (u *unbound) isStuck(id string) bool {
	_, stuck := u.stuck[id]
	_, parted := u.parted[id]
	return stuck || parted
}

// isRequeued says whether the pod is of a gang that was requeued.
func (u *unbound) isRequeued(id string) bool {
	_, requeued := u.requeued[id]
	return requeued
}

// requeue notes that the pod is of a gang that is requeued, and says whether it is still to be evicted.
func (u *unbound) requeue(id string) bool {
	evicted := u.requeued[id]
	u.requeued[id] = evicted
	return !evicted
}

// restart counts the time of a pod from now on: when what stands against it anywhere is over, its scheduler gets all of it.
func (u *unbound) restart(id string, now time.Time) {
	for _, since := range []map[string]time.Time{u.stuck, u.objected} {
		if _, known := since[id]; known {
			since[id] = now
		}
	}
}

func (u *unbound) forget(id string) {
	delete(u.stuck, id)
	delete(u.objected, id)
	delete(u.parted, id)
	delete(u.requeued, id)
}
