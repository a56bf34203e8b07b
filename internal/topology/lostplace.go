// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	corev1 "k8s.io/api/core/v1"
)

// kindGone is the exclusion of a node without an object. Plans never contain such nodes.
const kindGone Kind = "gone"

// ReservedOn lists the pods that have reservations on a node. Held capacity without a pod is omitted.
func (c *Cluster) ReservedOn(node string) []*corev1.Pod {
	n, ok := c.byName[node]
	if !ok {
		return nil
	}
	var pods []*corev1.Pod
	for _, id := range n.reserved {
		if pod := c.pods[id].pod; pod != nil {
			pods = append(pods, pod)
		}
	}
	return pods
}

// LostPlace returns the reason why the kube-scheduler cannot bind a released pod to its planned host: the node is gone, closed, or no
// longer suits the pod. For a node whose object was never seen it returns no reason, because the node may be new.
func (c *Cluster) LostPlace(pod *corev1.Pod, host string) (Exclusion, bool) {
	n, known := c.byName[host]
	if !known || n.version == 0 {
		return Exclusion{}, false
	}
	s := c.shapeOf(pod)
	switch {
	case !n.spec.present:
		return Exclusion{Kind: kindGone}, true
	case n.spec.cordoned && !c.tolerated(s, &unschedulable):
		return Exclusion{Kind: KindCordoned}, true
	case n.spec.notReady:
		return Exclusion{Kind: KindNotReady}, true
	case !matches(pod.Spec.NodeSelector, n.spec.labels):
		return Exclusion{Kind: KindNodeSelector}, true
	}
	if e, mismatch := c.mismatch(n, s); mismatch {
		return e, true
	}
	return Exclusion{Kind: KindLeaving}, n.spec.leaving
}

// shapeOf returns the planned shape of a pod with a reservation, else the shape of the pod's spec.
func (c *Cluster) shapeOf(pod *corev1.Pod) *Shape {
	if r, ok := c.pods[PodID(pod)]; ok && r.shape != nil {
		return r.shape
	}
	return ShapeOf(pod)
}

// LostCapacity returns a resource of which too little is left for a released pod on its reserved node; false when enough is left. Bound
// pods keep their capacity. Released pods get the remaining capacity by priority, the highest first, then by ID. The function released
// reports whether another pod with a reservation may be bound now; if not, its reservation does not count.
func (c *Cluster) LostCapacity(id string, released func(id string) bool) (Exclusion, bool) {
	r, ok := c.pods[id]
	if !ok || r.shape == nil || !r.node.spec.present {
		return Exclusion{}, false
	}
	for i := range r.held.wants {
		w := &r.held.wants[i]
		if !r.node.counts(w) {
			continue
		}
		have := r.node.available(w.resource)
		if have >= 0 && w.resource != notOffered {
			continue
		}
		for _, other := range r.node.reserved {
			if other != id && (!released(other) || c.before(id, other)) {
				have += c.pods[other].held.amountOf(w.resource)
			}
		}
		if w.resource == notOffered {
			return Exclusion{Kind: KindResource, Detail: w.name, Need: w.amount}, true
		}
		if have < 0 {
			return Exclusion{Kind: KindResource, Detail: w.name, Have: max(have+w.amount, 0), Need: w.amount}, true
		}
	}
	return Exclusion{}, false
}

// before reports whether the first of two pods with reservations has the higher priority, or else the lower ID.
func (c *Cluster) before(id, other string) bool {
	if a, b := c.priorityOf(id), c.priorityOf(other); a != b {
		return a > b
	}
	return id < other
}

func (c *Cluster) priorityOf(id string) int32 {
	if pod := c.pods[id].pod; pod != nil {
		return PriorityOf(pod)
	}
	return 0
}

// amountOf returns the amount of one resource in a load.
func (h *held) amountOf(resource int) int64 {
	for i := range h.wants {
		if h.wants[i].resource == resource {
			return h.wants[i].amount
		}
	}
	return 0
}
