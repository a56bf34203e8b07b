// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/quota"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// preemptedFor is the time for which a replica counts as preempted: long enough for all its pods to terminate.
const preemptedFor = 10 * time.Minute

// hold is the capacity of a lost pod, held for the successor with the same name, so that no other graph takes the domain of a replica that
// is being recreated (docs/placement.md#when-something-breaks).
type hold struct {
	node  string
	shape *topology.Shape
	graph types.NamespacedName
	until time.Time
	// promised: the hold is for a pod that has Kueue quota and is not admitted yet, not for the successor of a lost pod.
	promised bool
}

// holds has the capacity that is held for successors of lost pods. Callers must ensure that the cluster cache does not change during a
// call.
type holds struct {
	// lasts is the duration of a hold.
	lasts time.Duration
	// byPod are the holds by the pod's name.
	byPod map[types.NamespacedName]hold
	// used are the holds, by the pod's name, whose capacity was given to a plan before they expired.
	used map[types.NamespacedName]hold
	// preempted has, by replica, the time at which the replica lost a pod to a preemption. The capacity of such a replica is not held.
	preempted map[string]time.Time
	// preemptors maps replicas to the deployment for which a plan preempts them.
	preemptors map[string]preemptor
}

// preemptor is the deployment for which a plan preempts a replica.
type preemptor struct {
	graph types.NamespacedName
	since time.Time
}

func newHolds(lasts time.Duration) holds {
	return holds{
		lasts: lasts, byPod: map[types.NamespacedName]hold{}, used: map[types.NamespacedName]hold{}, preempted: map[string]time.Time{},
		preemptors: map[string]preemptor{},
	}
}

func holdID(pod types.NamespacedName) string { return "hold/" + pod.String() }

// begin turns the capacity of a pod that is gone into a hold.
func (h *holds) begin(c *topology.Cluster, pod *corev1.Pod, node string, graph types.NamespacedName, now time.Time) {
	c.DeletePod(topology.PodID(pod))
	h.add(c, client.ObjectKeyFromObject(pod), hold{node: node, shape: topology.ShapeOf(pod), until: now.Add(h.lasts), graph: graph})
}

// add holds capacity for a pod.
func (h *holds) add(c *topology.Cluster, pod types.NamespacedName, one hold) {
	h.byPod[pod] = one
	c.Assume(holdID(pod), one.node, one.shape)
}

// lift gives the capacity that is held for waiting pods to the current plan of these pods.
func (h *holds) lift(c *topology.Cluster, namespace string, components []placement.Component) {
	for _, component := range components {
		for _, replica := range component.Waiting {
			for _, pod := range replica.Pods {
				name := types.NamespacedName{Namespace: namespace, Name: pod.Name}
				one, held := h.byPod[name]
				if !held {
					continue
				}
				if node, reserved := c.Reserved(holdID(name)); reserved { // the reservation may be on another node than the hold
					one.node = node
					h.byPod[name] = one
				}
				c.Forget(holdID(name))
			}
		}
	}
}

// restore reserves the held capacity again, after lift gave it to a plan.
func (h *holds) restore(c *topology.Cluster) {
	for name, one := range h.byPod {
		if _, reserved := c.Reserved(holdID(name)); !reserved {
			c.Assume(holdID(name), one.node, one.shape)
		}
	}
}

// end ends the holds of pods that a plan covered, whether it placed them or not, and restores the other holds. pods does not include the
// pods of a replica that is still being created. A hold ends only once, so that its freed capacity wakes the planned graph at most once.
func (h *holds) end(c *topology.Cluster, pods map[string]*corev1.Pod) {
	for _, pod := range pods {
		name := client.ObjectKeyFromObject(pod)
		if one, held := h.byPod[name]; held {
			c.Forget(holdID(name))
			delete(h.byPod, name)
			h.used[name] = one
		}
	}
	h.restore(c)
}

// resume holds capacity again for a pod whose hold was given to a plan. The new hold is on the planned node, and expires when the former
// hold would have expired. resume reports whether it holds the capacity again.
func (h *holds) resume(c *topology.Cluster, pod types.NamespacedName, node string, now time.Time) bool {
	one, was := h.used[pod]
	if !was || node == "" || one.promised || !now.Before(one.until) {
		return false
	}
	one.node = node
	h.add(c, pod, one)
	return true
}

// drop ends the holds of a graph.
func (h *holds) drop(c *topology.Cluster, graph types.NamespacedName) {
	h.endWhere(c, func(one hold) bool { return one.graph == graph })
	maps.DeleteFunc(h.used, func(_ types.NamespacedName, one hold) bool { return one.graph == graph })
}

// expire ends the holds whose time is over, and returns the time until the next hold ends.
func (h *holds) expire(c *topology.Cluster, now time.Time) (next time.Duration) {
	h.endWhere(c, func(one hold) bool { return !now.Before(one.until) })
	maps.DeleteFunc(h.used, func(_ types.NamespacedName, one hold) bool { return !now.Before(one.until) })
	next = time.Hour
	for _, one := range h.byPod {
		next = min(next, one.until.Sub(now))
	}
	for gang, since := range h.preempted {
		if now.Sub(since) > preemptedFor {
			delete(h.preempted, gang)
		}
	}
	maps.DeleteFunc(h.preemptors, func(_ string, by preemptor) bool { return now.Sub(by.since) > preemptedFor })
	return next
}

func (h *holds) endWhere(c *topology.Cluster, ends func(hold) bool) {
	for name, one := range h.byPod {
		if ends(one) {
			c.Forget(holdID(name))
			delete(h.byPod, name)
		}
	}
}

// graphs returns the graphs for which capacity is held.
func (h *holds) graphs() map[types.NamespacedName]bool {
	graphs := map[types.NamespacedName]bool{}
	for _, one := range h.byPod {
		graphs[one.graph] = true
	}
	return graphs
}

func (h *holds) has(graph types.NamespacedName) bool {
	for _, one := range h.byPod {
		if one.graph == graph {
			return true
		}
	}
	return false
}

// trackPreempted records the replica of a pod that the kube-scheduler preempted or that Kueue evicted.
func (h *holds) trackPreempted(pod *corev1.Pod, now time.Time) {
	for _, c := range pod.Status.Conditions {
		byScheduler := c.Type == corev1.DisruptionTarget && c.Reason == corev1.PodReasonPreemptionByScheduler
		if c.Status == corev1.ConditionTrue && (byScheduler || c.Type == quota.PodEvicted) {
			if replica := gang.Of(pod); replica != "" {
				h.preempted[replica] = now
			}
		}
	}
}

// wasPreempted reports whether a replica, as [gang.Of] names it, recently lost a pod to a preemption or to an eviction by Kueue.
func (h *holds) wasPreempted(replica string) bool {
	_, lost := h.preempted[replica]
	return lost
}
