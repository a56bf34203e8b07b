// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"errors"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/provider"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// objected notes since when the provider's scheduler has objected to a pod: when it stays so, stuckGangs has the gang evicted. A pod that
// is gone meanwhile has no record, and none is made for it.
func (l *ledger) objected(o gang.Observation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.clock.Now()
	for _, pod := range o.Pods {
		said := objectionTo(o, pod)
		if id := topology.PodID(pod); l.pods.byID[id] != nil {
			l.pods.change(id, func(r *released) { r.objected.set(said, pod.Status.NominatedNodeName, now) })
		}
	}
}

// graphGone forgets a graph.
func (l *ledger) graphGone(name types.NamespacedName) wake {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.backoffs.end(name)
	delete(l.waits, name)
	delete(l.failures, name)
	delete(l.avoided, name)
	delete(l.refusals, name)
	delete(l.baseEvictions, name)
	l.forgetEnded(name, true)
	l.holds.drop(l.cluster, name)
	return wake{waiting: l.reserver.leave(name, false, l.clock.Now())}
}

// expire frees what was held or reserved for too long, and returns when the next hold ends.
func (l *ledger) expire() (next time.Duration, w wake) {
	now := l.clock.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	next = l.holds.expire(l.cluster, now)
	return next, wake{now: l.endedRefusals(), waiting: l.reserver.expire(now)}
}

// requeued notes that gangs of a graph are evicted and requeued, by name, and has the graph pause. It returns the gangs for which that is
// new, and the pods that are still to be evicted, in order.
//
// The cache may show evicted pods for a while. Their gang is counted and announced once, however often it is looked at until they are gone.
func (l *ledger) requeued(o gang.Observation, gangs map[string]eviction) (announced []string, evict []*corev1.Pod) {
	fresh := map[string]bool{}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.withFollowers(o, gangs)
	for _, pod := range o.Pods {
		of, before := pod.Annotations[render.AnnotationGang], l.pods.of(topology.PodID(pod))
		why, again := gangs[of], before.evicted || before.requeued && (!before.follows || gangs[of].follows)
		if why.why != "" && pod.DeletionTimestamp == nil && !again {
			fresh[of] = true
		}
	}
	announced = slices.Sorted(maps.Keys(fresh))
	l.learnRefusals(o, gangs, fresh)
	stuck := slices.IndexFunc(announced, func(of string) bool { return !gangs[of].follows })
	if stuck >= 0 { // one pause, however many gangs are stuck
		l.backoffs.begin(client.ObjectKeyFromObject(o.DGD), gangs[announced[stuck]].why, l.clock.Now())
	}
	return announced, l.toEvict(o.Pods, gangs)
}

// evicted: a pod of a requeued gang is evicted. It may be gone by now.
func (l *ledger) evicted(o gang.Observation, pod *corev1.Pod) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if id := topology.PodID(pod); l.pods.of(id).requeued {
		l.pods.change(id, func(r *released) { r.evicted = true })
	}
	if f, failed := l.failures[client.ObjectKeyFromObject(o.DGD)]; failed {
		f.since = l.clock.Now() // for what is left
		l.failures[client.ObjectKeyFromObject(o.DGD)] = f
	}
	l.baseEvicted(o, pod.Annotations[render.AnnotationGang])
}

// gangBegun notes that a pod of a gang is released: from now on the others keep their capacity until they are released too, or it would be
// lost to others, and what is released would wait for the rest permanently.
func (l *ledger) gangBegun(rest []gang.Release) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.begin(rest)
}

// gangContinues reports whether a pod of a gang was released in an earlier try. The gang has begun then.
func (l *ledger) gangContinues(pods []gang.Release) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.ContainsFunc(pods, func(r gang.Release) bool { return l.pods.of(topology.PodID(r.Pod)).begun }) {
		return false
	}
	l.begin(pods)
	return true
}

// notReleased ends a release that failed. In a gang that has begun the pod keeps its capacity until the gang is planned again, unless it
// has no use for it.
func (l *ledger) notReleased(pod *corev1.Pod, begun bool, err error) {
	id := topology.PodID(pod)
	l.mu.Lock()
	defer l.mu.Unlock()
	if !begun || overtaken(err) {
		l.giveBack(id)
	} else if l.pods.of(id).begun { // else its release is visible, or it is gone
		l.pods.change(id, func(r *released) { r.failed = true })
	}
}

// overtaken reports whether what the release was planned on is no longer true. Other failures are the same, or over, at the next try.
func overtaken(err error) bool {
	return errors.Is(err, provider.ErrPodGone) || errors.Is(err, provider.ErrElsewhere) || errors.Is(err, provider.ErrStale)
}

// restGivenBack ends the reservations of gated pods whose gang was evicted.
func (l *ledger) restGivenBack(pods []*corev1.Pod, gangs map[string]eviction) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, pod := range pods {
		id := topology.PodID(pod)
		if r := l.pods.of(id); gangs[r.gang].why != "" && (r.failed || r.begun && !r.releasing) {
			l.giveBack(id)
		}
	}
}

// releaseFailed has a release that failed tried again, and reported when it was not the first in succession.
func (l *ledger) releaseFailed(name types.NamespacedName, err error) (w wake) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.failures.note(name, err, l.clock.Now())
	if w.at(name, f.until); f.repeated() {
		w.now = append(w.now, name)
	}
	return w
}

// gangReleased forgets the failures of a graph.
func (l *ledger) gangReleased(name types.NamespacedName) (w wake) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, failed := l.failures[name]; failed {
		w.now = append(w.now, name)
	}
	delete(l.failures, name)
	return w
}

// recovered reserves what a graph has of an earlier leader, which is read under the lock.
func (l *ledger) recovered(observe func() (gang.Observation, error), reserve func(gang.Observation)) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	o, err := observe()
	if err == nil {
		_, o.Idle = l.pods.observed(o.Pods)
		reserve(o)
	}
	return err
}
