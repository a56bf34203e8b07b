// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"math"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/graph"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// victimsPatience is how long a gang waits for a pod that has to leave for it, beyond the end of that pod's grace period: its kubelet may be slow.
// A pod with a finalizer, or on a dead kubelet, may never leave.
const victimsPatience = time.Minute

// victimsOf lists the pods that have to leave before a released pod can be bound, the last to go first, and the node that they are on: the one
// that the pod is nominated for, or on which the plan has others free capacity for it. Pods whose deletion began long after something stood against
// the pod are no victims of it: on a node where pods come and go the wait would have no end. Called with the lock held.
func (s *Scheduler) victimsOf(pod *corev1.Pod) (node string, victims []topology.Leaving) {
	id := topology.PodID(pod)
	node = pod.Status.NominatedNodeName
	if node == "" && s.inFlight.preempting[id] {
		node, _ = s.cluster.Reserved(id)
	}
	if node == "" || !gang.WaitsForScheduler(pod) {
		return "", nil
	}
	victims = s.cluster.LeavingOn(node)
	if first, known := s.unbound.begun(id); known {
		victims = slices.DeleteFunc(victims, func(l topology.Leaving) bool { return !s.isVictim(l, first) })
	}
	return node, victims
}

// isVictim says whether a pod that leaves may do so for one against which something has stood since first.
func (s *Scheduler) isVictim(l topology.Leaving, first time.Time) bool {
	return !l.Since.After(first.Add(s.options.RequeueAfter))
}

// victimGone gives the pods that waited for a pod to leave the whole time to be bound, now that it has. Called with the lock held.
func (s *Scheduler) victimGone(pod *corev1.Pod) {
	node, leaving := pod.Spec.NodeName, topology.LeavingOf(pod)
	if node == "" || leaving == nil {
		return
	}
	s.unbound.left(node, func(first time.Time) bool { return s.isVictim(*leaving, first) }, s.options.Clock.Now())
}

// preemptingOf says, by pod ID, which released pods others have to free capacity for, and who. Called with the lock held.
func (s *Scheduler) preemptingOf(pods []*corev1.Pod) map[string]string {
	waits := map[string]string{}
	for _, pod := range pods {
		node, victims := s.victimsOf(pod)
		switch id := topology.PodID(pod); {
		case len(victims) > 0:
			waits[id] = gang.WaitsForVictims(node, victims)
		case node != "" && s.inFlight.preempting[id] && s.cluster.Overbooked(node):
			waits[id] = gang.WaitsForPreemption(node)
		}
	}
	return waits
}

// notEnding says, by pod ID, which pods of a graph were deleted and do not end. The graph is looked at again when others should have. Called with the
// lock held.
func (s *Scheduler) notEnding(graph types.NamespacedName, pods []*corev1.Pod) map[string]string {
	out, now := map[string]string{}, s.options.Clock.Now()
	for _, pod := range pods {
		if by, deleted := gang.EndsBy(pod); deleted && now.Before(by) {
			s.queue.addAt(graph, by)
		} else if why := gang.NotEnding(pod, now, s.cluster.NodeReady); why != "" {
			out[topology.PodID(pod)] = why
		}
	}
	return out
}

// avoided are hosts that others have not left in time for a gang, by graph and replica (see [gang.Of]). The replica is placed elsewhere while there is
// other capacity, until nothing on the host is leaving any more.
type avoided map[types.NamespacedName]map[string][]string

func (a avoided) add(graph types.NamespacedName, replica, node string) {
	if a[graph] == nil {
		a[graph] = map[string][]string{}
	}
	if !slices.Contains(a[graph][replica], node) {
		a[graph][replica] = append(a[graph][replica], node)
	}
}

// has says whether a replica avoids a host.
func (a avoided) has(graph types.NamespacedName, replica, node string) bool {
	return slices.Contains(a[graph][replica], node)
}

// of returns the hosts that replicas of a graph avoid now, and forgets the others.
func (a avoided) of(graph types.NamespacedName, c *topology.Cluster) map[string][]string {
	for replica, nodes := range a[graph] {
		nodes = slices.DeleteFunc(nodes, func(node string) bool { return len(c.LeavingOn(node)) == 0 })
		if a[graph][replica] = nodes; len(nodes) == 0 {
			delete(a[graph], replica)
		}
	}
	if len(a[graph]) == 0 {
		delete(a, graph)
	}
	return a[graph]
}

// findElsewhere looks for free capacity for the gangs that wait for others to leave. The first one that has some now is requeued at once, and the
// capacity is held for it until it is back. Called with the lock held.
func (s *Scheduler) findElsewhere(o gang.Observation, d *decision) {
	name, now := client.ObjectKeyFromObject(o.DGD), s.options.Clock.Now()
	if _, pauses := s.backoffs.of(name, now); pauses || o.Bars != "" || o.Failing != "" {
		return
	}
	gangs := preemptingGangs(o)
	for _, one := range gangs {
		found, unmet := gang.Elsewhere(s.cluster, o, one.gang)
		if found == nil {
			if len(gangs) == 1 {
				d.waits = waiting{preemptsBelow: math.MinInt32, unmet: unmet}
			}
			continue
		}
		for pod, at := range found {
			s.holds.add(s.cluster, pod, hold{node: at.Node, shape: at.Shape, until: now.Add(s.holds.lasts), graph: name})
		}
		d.evict(one.gang, eviction{reason: ReasonElsewhere, why: one.why + "; there is free capacity for it elsewhere"})
		return // the others are looked at when this one is gone
	}
}

type preemptingGang struct{ gang, why string }

// preemptingGangs are those of which a pod waits for others to leave, by name.
func preemptingGangs(o gang.Observation) (list []preemptingGang) {
	for _, pod := range o.Pods {
		why := o.Preempting[topology.PodID(pod)]
		of := pod.Annotations[graph.AnnotationGang]
		if why == "" || slices.ContainsFunc(list, func(g preemptingGang) bool { return g.gang == of }) {
			continue
		}
		list = append(list, preemptingGang{of, pod.Name + ": " + why})
	}
	slices.SortFunc(list, func(a, b preemptingGang) int { return strings.Compare(a.gang, b.gang) })
	return list
}
