// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/internal/assignment"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// requeued marks the pods of gangs, by name, as requeued, and starts a pause of the graph. It returns the gangs whose eviction is new, and
// the pods that are still to be evicted, in the order of [state.toEvict].
//
// The cache may still show evicted pods for a while. Their gang is counted and announced once, however often the graph is evaluated until
// the pods are gone.
func (l *ledger) requeued(o gang.Observation, gangs map[string]eviction) (announced []string, evict []*corev1.Pod) {
	fresh := map[string]bool{}
	l.mu.Lock()
	defer l.mu.Unlock()
	withFollowers(o, gangs)
	for _, pod := range o.Pods {
		of, before := pod.Annotations[render.AnnotationGang], l.pods.of(topology.PodID(pod))
		why, again := gangs[of], before.evicted || before.requeued && (!before.follows || gangs[of].follows)
		if why.why != "" && pod.DeletionTimestamp == nil && !again && !why.recorded && !o.Record.Evicting(of) {
			fresh[of] = true
		}
	}
	announced = slices.Sorted(maps.Keys(fresh))
	l.refused.learnFrom(o, gangs, fresh)
	stuck := slices.IndexFunc(announced, func(of string) bool { return !gangs[of].follows })
	if stuck >= 0 { // one pause, however many gangs are stuck
		l.backoffs.begin(client.ObjectKeyFromObject(o.DGD), gangs[announced[stuck]].why, l.clock.Now())
	}
	return announced, l.toEvict(o, gangs)
}

// evicted marks a pod of a requeued gang as evicted. The pod may be gone by now.
func (l *ledger) evicted(o gang.Observation, pod *corev1.Pod) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if id := topology.PodID(pod); l.pods.of(id).requeued {
		l.pods.change(id, func(r *released) { r.evicted = true })
	}
	if f, failed := l.failures[client.ObjectKeyFromObject(o.DGD)]; failed {
		f.since = l.clock.Now() // the release of the remaining pods gets the full time again
		l.failures[client.ObjectKeyFromObject(o.DGD)] = f
	}
}

// notEvicted clears the requeued mark of a pod that was not deleted, for example because the pod has changed since it was read. The next
// evaluation judges the pod's gang by its current state.
func (l *ledger) notEvicted(pod *corev1.Pod) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if id := topology.PodID(pod); l.pods.byID[id] != nil {
		l.pods.change(id, func(r *released) { r.requeued, r.follows, r.uncreated = false, false, false })
	}
}

// keepUnbegun ends the eviction of each gang without a deleted pod. begun has the gangs with deleted pods. The next evaluation judges the
// kept gangs by their current state, and the next write corrects the record. An eviction that was recorded earlier continues. An eviction
// that follows the base gang continues if the base gang is in begun or was refused.
func (l *ledger) keepUnbegun(o gang.Observation, gangs map[string]eviction, begun map[string]bool) {
	if o.Record == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	name := gang.BaseGang(o)
	base := begun[name] || slices.Contains(l.options.Asks.refusedOf(client.ObjectKeyFromObject(o.DGD), o.Record), name)
	for of, why := range gangs {
		if goes := begun[of] || why.follows && base || why.recorded; !goes && !o.Record.Evicting(of) {
			l.kept[of] = keptGang{graph: client.ObjectKeyFromObject(o.DGD), since: o.Record.Gangs[of].Since}
		}
	}
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

// objected records the time since which the provider's scheduler has objected to each pod of a graph. If an objection lasts, stuckGangs
// lists the pod's gang for eviction. objected skips pods without an entry in the ledger, because these pods are gone by now.
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

// evictedRecord reads a graph, and returns its record with the evictions of gangs added; nil if the record already has these evictions.
func (l *ledger) evictedRecord(
	graph types.NamespacedName, gangs map[string]eviction, observe func() (gang.Observation, error),
) (*assignment.Record, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.evaluate(graph)
	o, err := observe()
	if err != nil || o.Record == nil {
		return nil, err
	}
	now, members := l.clock.Now(), map[string][]gang.Key{}
	e.addAllPlanned(&o)
	next, shown := e.followRecord(o, func(string) bool { return false }, now)
	changed := evictsMore(o.Record, next)
	for key, one := range shown {
		members[one.Gang] = append(members[one.Gang], key)
	}
	for of, why := range gangs {
		changed = next.Evict(of, members[of], why.why, now) || changed
	}
	if !changed {
		return nil, nil
	}
	return next, nil
}

// evictsMore reports whether a record has evictions that an earlier record lacks.
func evictsMore(was, next *assignment.Record) bool {
	for of := range next.Gangs {
		if next.Evicting(of) && !was.Evicting(of) {
			return true
		}
	}
	return false
}
