// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// podChanged counts the capacity that a pod uses, for every pod in the cluster, and tracks Trellis' pods from gated to bound. The cluster
// cache tracks the capacity that a change frees. If the pod's node no longer has capacity for all its reservations, podChanged returns the
// pods with these reservations.
func (l *ledger) podChanged(pod *corev1.Pod) (displaced []*corev1.Pod) {
	id, now := topology.PodID(pod), l.clock.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.past[id] {
		return nil
	}
	l.takeOver(pod)
	l.holds.trackPreempted(pod, now)
	l.noteOwn(pod)
	switch {
	case pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed:
		l.uncount(pod, id)
	case pod.Spec.NodeName != "":
		l.cluster.SetPod(pod)
		l.observeBound(id)
		if l.cluster.Overbooked(pod.Spec.NodeName) {
			displaced = l.cluster.ReservedOn(pod.Spec.NodeName)
		}
	case gang.WaitsForScheduler(pod) && gang.PinnedHost(pod) == "":
		l.cluster.Loosen(id)
	case gang.WaitsForScheduler(pod):
		l.reservePinned(pod, id)
	}
	l.served.see(pod)
	l.freer.follow(pod, id, now)
	l.pods.follow(pod, id, now)
	return displaced
}

func (l *ledger) podGone(pod *corev1.Pod) {
	id := topology.PodID(pod)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.past[id] {
		delete(l.past, id)
		return
	}
	l.gone(pod, id)
	delete(l.freer.requests, id)
}
