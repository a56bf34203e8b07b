// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"math"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// victimsPatience is how long a gang waits for a preemption victim beyond the end of the victim's grace period, because the victim's
// kubelet may be slow. The wait is limited, because a victim with a finalizer, or on a dead kubelet, may never leave.
const victimsPatience = time.Minute

// victimsOf returns the pods that must leave before a released pod can be bound, the last to leave first, and their node. The node is the
// pod's nominated node, or the node on which the plan preempts other pods for it. Pods whose deletion began long after the refusal of the
// released pod are not its victims. Otherwise the wait would never end on a node where pods come and go.
func (s *state) victimsOf(pod *corev1.Pod) (node string, victims []topology.Leaving) {
	id := topology.PodID(pod)
	record := s.pods.of(id)
	node = pod.Status.NominatedNodeName
	if node == "" && record.preempting {
		node, _ = s.cluster.Reserved(id)
	}
	if node == "" || !gang.WaitsForScheduler(pod) {
		return "", nil
	}
	victims = s.cluster.LeavingOn(node)
	if first, refused := record.refusedSince(); refused {
		victims = slices.DeleteFunc(victims, func(one topology.Leaving) bool { return !isVictim(one, first, s.options.RequeueAfter) })
	}
	return node, victims
}

// isVictim reports whether a terminating pod may be a preemption victim for a pod whose refusal began at the time first.
func isVictim(one topology.Leaving, first time.Time, requeueAfter time.Duration) bool {
	return !one.Since.After(first.Add(requeueAfter))
}

// victimGone restarts the refusal times of the pods that waited for a preemption victim that is gone, so that they get the full time to be
// bound.
func (s *state) victimGone(pod *corev1.Pod) {
	node, leaving := pod.Spec.NodeName, topology.LeavingOf(pod)
	if node == "" || leaving == nil {
		return
	}
	s.pods.left(node, func(first time.Time) bool { return isVictim(*leaving, first, s.options.RequeueAfter) }, s.clock.Now())
}

// preemptingOf returns, by pod ID, a message for each released pod that waits for other pods to free capacity.
func (s *state) preemptingOf(pods []*corev1.Pod) map[string]string {
	waits := map[string]string{}
	for _, pod := range pods {
		node, victims := s.victimsOf(pod)
		switch id := topology.PodID(pod); {
		case len(victims) > 0:
			waits[id] = gang.WaitsForVictims(node, victims)
		case node != "" && s.pods.of(id).preempting && s.cluster.Overbooked(node):
			waits[id] = gang.WaitsForPreemption(node)
		}
	}
	return waits
}

// notEnding returns, by pod ID, why deleted pods of a graph have not terminated in time. It schedules another evaluation for the time by
// which the graph's other deleted pods should terminate.
func (e *evaluation) notEnding(pods []*corev1.Pod) map[string]string {
	out, now := map[string]string{}, e.clock.Now()
	for _, pod := range pods {
		if by, deleted := gang.EndsBy(pod); deleted && now.Before(by) {
			e.d.lookAt(by)
		} else if why := gang.NotEnding(pod, now, e.cluster.NodeReady); why != "" {
			out[topology.PodID(pod)] = why
		}
	}
	return out
}

// findElsewhere looks for free capacity for the gangs that wait for preemption victims to leave. It immediately requeues the first gang for
// which there is capacity, and holds the capacity for the gang until the gang is recreated.
func (e *evaluation) findElsewhere(o gang.Observation) {
	now := e.clock.Now()
	if _, pauses := e.backoffs.of(e.d.graph, now); pauses || o.Bars != "" || o.Failing != "" {
		return
	}
	gangs := preemptingGangs(o)
	for _, one := range gangs {
		found, unmet := gang.Elsewhere(e.cluster, o, one.gang)
		if found == nil {
			if len(gangs) == 1 {
				e.d.waits = waiting{preemptsBelow: math.MinInt32, unmet: unmet}
			}
			continue
		}
		for pod, at := range found {
			e.holds.add(e.cluster, pod, hold{node: at.Node, shape: at.Shape, until: now.Add(e.holds.lasts), graph: e.d.graph})
		}
		e.d.evict(one.gang, eviction{reason: ReasonElsewhere, why: one.why + "; there is free capacity for it elsewhere"})
		return // the other gangs are checked when this one is gone
	}
}

type preemptingGang struct{ gang, why string }

// preemptingGangs returns the gangs with a pod that waits for preemption victims to leave, sorted by name.
func preemptingGangs(o gang.Observation) (list []preemptingGang) {
	for _, pod := range o.Pods {
		why := o.Preempting[topology.PodID(pod)]
		of := pod.Annotations[render.AnnotationGang]
		if why == "" || slices.ContainsFunc(list, func(g preemptingGang) bool { return g.gang == of }) {
			continue
		}
		list = append(list, preemptingGang{of, pod.Name + ": " + why})
	}
	slices.SortFunc(list, func(a, b preemptingGang) int { return strings.Compare(a.gang, b.gang) })
	return list
}
