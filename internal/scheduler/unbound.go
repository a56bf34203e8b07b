// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import "time"

// unbound notes since when something has stood against binding a released pod, by pod ID.
type unbound struct {
	// stuck pods are unschedulable, by what their scheduler says on them; the provider's scheduler objects to others in objects of its own.
	stuck, objected map[string]against
	// parted pods are released, bound or not, and the rest of their replica, which was never whole, finds no capacity.
	parted map[string]parted
	// requeued are the pods of gangs that are requeued, until they are gone, and whether they are evicted.
	requeued map[string]bool
}

// against is what stands against one pod.
type against struct {
	// since is what the time until its gang is requeued counts from. first is when it began, before pods that had to leave were waited for.
	since, first time.Time
	// node is where other pods have to leave for it; "" when none have to.
	node string
}

type parted struct {
	since time.Time
	why   string
}

func newUnbound() unbound {
	return unbound{stuck: map[string]against{}, objected: map[string]against{}, parted: map[string]parted{}, requeued: map[string]bool{}}
}

// set notes or ends one of both; a state that is known keeps its times.
func set(list map[string]against, id string, stands bool, node string, now time.Time) {
	if !stands {
		delete(list, id)
		return
	}
	one, known := list[id]
	if !known {
		one.since, one.first = now, now
	}
	one.node = node
	list[id] = one
}

func (u *unbound) setStuck(id string, stands bool, node string, now time.Time) {
	set(u.stuck, id, stands, node, now)
}

func (u *unbound) setObjected(id string, stands bool, node string, now time.Time) {
	set(u.objected, id, stands, node, now)
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
	for _, list := range []map[string]against{u.stuck, u.objected} {
		if one, known := list[id]; known {
			one.since, one.first = now, now
			list[id] = one
		}
	}
}

// begun is since when something has stood against a pod.
func (u *unbound) begun(id string) (first time.Time, known bool) {
	one, known := u.stuck[id]
	if !known {
		one, known = u.objected[id]
	}
	return one.first, known
}

// left counts the time of the pods that waited for another one to leave a node from now on: their scheduler may bind them only now.
func (u *unbound) left(node string, isVictim func(first time.Time) bool, now time.Time) {
	for _, list := range []map[string]against{u.stuck, u.objected} {
		for id, one := range list {
			if one.node == node && isVictim(one.first) {
				one.since = now
				list[id] = one
			}
		}
	}
}

func (u *unbound) forget(id string) {
	delete(u.stuck, id)
	delete(u.objected, id)
	delete(u.parted, id)
	delete(u.requeued, id)
}
