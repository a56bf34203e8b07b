// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import "time"

// unbound notes since when something has stood against binding a released pod, by pod ID.
type unbound struct {
	// stuck pods are unschedulable, by what their scheduler says on them; the provider's scheduler objects to others in objects of its own.
	stuck, objected map[string]time.Time
}

func newUnbound() unbound {
	return unbound{stuck: map[string]time.Time{}, objected: map[string]time.Time{}}
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

// isStuck says whether the pod is unschedulable.
func (u *unbound) isStuck(id string) bool {
	_, stuck := u.stuck[id]
	return stuck
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
}
