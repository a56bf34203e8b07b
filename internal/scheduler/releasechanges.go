// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"errors"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/assignment"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/provider"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// gangBegun marks a gang as begun after its first pod is released. rest has the gang's other pods. They keep their capacity until they are
// released too. Otherwise other gangs could take this capacity, and the released pods would wait for the other pods permanently.
func (l *ledger) gangBegun(rest []gang.Release) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.begin(rest)
}

// decides adds to the count of the graph's releases in progress that determine a domain. A write of the graph's record counts as one
// release.
func (l *ledger) decides(name types.NamespacedName, pods int) {
	if pods == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.deciding[name] == nil {
		l.deciding[name] = &deciding{}
	}
	l.deciding[name].pods += pods
}

// isDeciding reports whether a release that determines a domain of the graph, or a write of the graph's record, is in progress. If so, the
// graph is evaluated when these writes end.
func (l *ledger) isDeciding(name types.NamespacedName) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	of := l.deciding[name]
	if of != nil {
		of.asked = true
	}
	return of != nil
}

// decided subtracts a number of pods that [ledger.decides] has added, because their release succeeded or failed. If no pods remain, and
// isDeciding was called in the meantime, it queues the graph.
func (l *ledger) decided(name types.NamespacedName, pods int) (w wake) {
	if pods == 0 {
		return w
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	of := l.deciding[name]
	if of.pods -= pods; of.pods > 0 {
		return w
	}
	delete(l.deciding, name)
	if of.asked {
		w.now = append(w.now, name)
	}
	return w
}

// gangContinues reports whether an earlier plan already released a pod of a gang. If so, it marks the gang as begun.
func (l *ledger) gangContinues(pods []gang.Release) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.ContainsFunc(pods, func(r gang.Release) bool { return l.pods.of(topology.PodID(r.Pod)).begun }) {
		return false
	}
	l.begin(pods)
	return true
}

// isBegun reports whether the gang of a gated pod has released pods.
func (l *ledger) isBegun(id string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.pods.of(id).begun
}

// notReleased ends a failed release. If the gang has begun, the pod keeps its capacity until the gang is planned again, unless err shows
// that the pod no longer needs the capacity (see [overtaken]). notReleased ignores pods that are visible as released, and pods that are
// being released at a later attempt by now.
func (l *ledger) notReleased(release gang.Release, begun bool, err error) {
	id := topology.PodID(release.Pod)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pods.of(id).attempt != release.Pin.Attempt {
		return
	}
	if !begun || overtaken(err) {
		l.giveBackRelease(release)
	} else if l.pods.of(id).begun { // else its release is visible, or it is gone
		l.pods.change(id, func(r *released) { r.failed = true })
	}
}

// overtaken reports whether err shows that the cluster has changed since the plan. Other errors may or may not occur again at the next try.
func overtaken(err error) bool {
	return errors.Is(err, provider.ErrPodGone) || errors.Is(err, provider.ErrElsewhere) || errors.Is(err, provider.ErrStale)
}

// releaseFailed schedules a retry of a failed release. From the second failure in a row, it also queues the graph immediately, so that the
// failure is reported.
func (l *ledger) releaseFailed(name types.NamespacedName, err error) (w wake) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.failures.note(name, err, l.clock.Now())
	if w.at(name, f.until); f.repeated() {
		w.now = append(w.now, name)
	}
	return w
}

// gangReleased forgets the failed releases of a graph. If there were any, it queues the graph.
func (l *ledger) gangReleased(name types.NamespacedName) (w wake) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, failed := l.failures[name]; failed {
		w.now = append(w.now, name)
	}
	delete(l.failures, name)
	return w
}

// carriedOut marks the attempts of a recorded decision as spent, and forgets the attempts of replicas in no gang.
func (l *ledger) carriedOut(d *decision, now *assignment.Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.spend(d.graph, d.assigned)
	maps.DeleteFunc(l.spent[d.graph], func(key gang.Key, _ int32) bool { return now.GangOf(key) == "" })
}

// recovered reads a graph under the lock, and calls reserve for the capacity that an earlier leader gave to the graph.
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

// mayRefresh implements [Scheduler.MayRefresh]. Like a plan, it reads the graph under the lock, so that nothing is released in between.
func (l *ledger) mayRefresh(name types.NamespacedName, to *trellisv1alpha1.ResolvedTopology, observe func() (gang.Observation, error),
) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.refreshing, name)
	if to == nil {
		return false, nil
	}
	o, err := observe()
	if err != nil || l.deciding[name] != nil || l.creates(name) {
		return false, err
	}
	releasing, _ := l.pods.observed(o.Pods)
	if slices.ContainsFunc(o.Pods, func(pod *corev1.Pod) bool {
		_, onItsWay := releasing[topology.PodID(pod)]
		return onItsWay || !render.GateClosed(pod) && placedByTrellis(pod, o.Groups)
	}) {
		return false, nil
	}
	l.refreshing[name] = to
	return true, nil
}
