// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// PodID returns the key of a pod in the store: its UID, or namespace/name for an object that was never created.
func PodID(pod *corev1.Pod) string {
	if pod.UID != "" {
		return string(pod.UID)
	}
	return pod.Namespace + "/" + pod.Name
}

// SetPod counts a pod on its node until the pod is deleted or finished. A terminating pod is still counted, because it still runs. A pod
// without a node is not counted, but keeps its reservation.
//
// A bound pod replaces its reservation. A pod that is pinned by labels only ([Cluster.Loosen]) may be bound to a host that is reserved for
// another such pod. If the two pods are interchangeable, the other pod's reservation moves to the host that became free.
func (c *Cluster) SetPod(pod *corev1.Pod) {
	id := PodID(pod)
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		c.DeletePod(id)
		return
	}
	if pod.Spec.NodeName == "" {
		return
	}
	l := loadOf(pod)
	h := c.intern(&l)
	old, known := c.pods[id]
	r := &record{held: h, standing: c.standingOf(pod), pod: c.objectOf(pod)}
	if known && old.shape == nil && old.held == h && old.standing.equal(r.standing) && old.node.name == pod.Spec.NodeName &&
		affinityOf(old.pod) == affinityOf(r.pod) {
		old.pod = r.pod // refers to the current object of the cache
		return
	}
	n := c.ensure(pod.Spec.NodeName)
	r.node = n
	c.putPod(id, r)
	if known && old.shape != nil && old.loose && old.node != n {
		c.swap(n, old)
	}
}

// objectOf returns the object of a bound pod if it is needed later; nil otherwise. Binders need all pods. Without binders, only pods with
// required anti-affinity are needed.
func (c *Cluster) objectOf(pod *corev1.Pod) *corev1.Pod {
	if _, repels := scopeOf(pod); len(c.Binders) > 0 || repels {
		return pod
	}
	return nil
}

func affinityOf(pod *corev1.Pod) *corev1.Affinity {
	if pod == nil {
		return nil
	}
	return pod.Spec.Affinity
}

// swap moves one loose reservation from n to the node of an ended reservation. The pods are interchangeable, and the moved pod may be bound
// there.
func (c *Cluster) swap(n *node, freed *record) {
	best := ""
	for _, id := range n.reserved {
		r := c.pods[id]
		if r.loose && r.shape.key == freed.shape.key && (best == "" || id < best) && c.reachable(freed.node.name, r.pin) {
			best = id
		}
	}
	if best != "" {
		moved := *c.pods[best]
		moved.node = c.ensure(freed.node.name)
		c.putPod(best, &moved)
	}
}

// reachable reports whether a pod with the given pin may be bound to the node.
func (c *Cluster) reachable(name string, pin map[string]string) bool {
	return len(pin) == 0 || matches(pin, c.NodeLabels(name))
}

// DeletePod removes a pod, bound or reserved.
func (c *Cluster) DeletePod(id string) { c.putPod(id, nil) }

// Assume counts capacity on a node as used although no pod uses it.
func (c *Cluster) Assume(id, node string, s *Shape) {
	c.putPod(id, &record{node: c.ensure(node), held: c.intern(&s.load), shape: s})
}

// Loosen marks the reservation of a released pod as loose: only labels pin the pod, so its scheduler may bind it to any node with them. An
// earlier version of the operator released such a pod, or the pod's scheduler chooses the host.
func (c *Cluster) Loosen(id string) {
	if r, ok := c.pods[id]; ok && r.shape != nil && !r.loose {
		loose := *r
		loose.loose = true
		c.putPod(id, &loose)
	}
}

// AssumePinned reserves capacity on a node for a released, unbound pod that is pinned to nodes with the given labels. The reservation moves
// only to nodes with these labels.
func (c *Cluster) AssumePinned(id, node string, s *Shape, pin map[string]string) {
	h := c.intern(&s.load)
	c.putPod(id, &record{node: c.ensure(node), held: h, shape: s.unruled(), pod: s.pod, pin: pin})
}

// HandOver transfers the reservation of a planned pod to the created pod, which its node selector pins. The reservation keeps the planned
// shape, which contains no pins. If the load of the created pod differs from the plan, the reservation gets the shape of the created pod.
func (c *Cluster) HandOver(planned string, pod *corev1.Pod) {
	r, ok := c.pods[planned]
	if !ok || r.shape == nil {
		return
	}
	if l := loadOf(pod); l.key() != r.shape.load.key() {
		c.AssumePinned(PodID(pod), r.node.name, ShapeOf(pod), pod.Spec.NodeSelector)
	} else {
		c.putPod(PodID(pod), &record{node: r.node, held: r.held, shape: r.shape, pod: pod, pin: pod.Spec.NodeSelector})
	}
	c.Forget(planned)
}

// Forget drops a reservation; a bound pod stays counted.
func (c *Cluster) Forget(id string) {
	if r, ok := c.pods[id]; ok && r.shape != nil {
		c.putPod(id, nil)
	}
}

// Reserved returns the node on which a pod has a reservation.
func (c *Cluster) Reserved(id string) (node string, ok bool) {
	if r, ok := c.pods[id]; ok && r.shape != nil {
		return r.node.name, true
	}
	return "", false
}

// Bound returns the node that a pod is bound to.
func (c *Cluster) Bound(id string) (node string, ok bool) {
	if r, ok := c.pods[id]; ok && r.shape == nil {
		return r.node.name, true
	}
	return "", false
}

// Reservations calls f for every reservation, in no particular order.
func (c *Cluster) Reservations(f func(id, node string, s *Shape)) {
	for id, r := range c.pods {
		if r.shape != nil {
			f(id, r.node.name, r.shape)
		}
	}
}

// Expect makes room in the undo log for a number of changes, so that the log grows once per large gang.
func (c *Cluster) Expect(changes int) {
	if len(c.marks) > 0 {
		c.undo = slices.Grow(c.undo, changes)
	}
}

// putPod is the only function that changes a pod's record and counts; nil removes the record.
func (c *Cluster) putPod(id string, r *record) {
	if r != nil {
		c.add(r.node, r.held, 1)
		c.log.touch(r.node.id)
		c.followedRecord(r, 1)
	} else if c.pods[id] == nil {
		return
	}
	c.setRecord(id, r)
}

// setRecord does the same as putPod, but does not count the new pod on its node.
func (c *Cluster) setRecord(id string, r *record) {
	old := c.pods[id]
	c.work += recordWork
	c.noteRecord(id, old, r)
	if len(c.marks) > 0 {
		u := undo{name: id, record: old}
		if old != nil {
			u.node = old.node.name
			old.held.refs++
		}
		c.undo = append(c.undo, u)
	}
	if r != nil {
		r.held.refs++
		r.node.pods++
		c.list(id, r, 1)
		c.pods[id] = r
		c.repels(id, r, 1)
	} else {
		delete(c.pods, id)
	}
	if old != nil {
		c.add(old.node, old.held, -1)
		c.followedRecord(old, -1)
		c.repels(id, old, -1)
		old.node.pods--
		c.log.touch(old.node.id)
		c.list(id, old, -1)
		c.unref(old.held)
		c.release(old.node)
	}
}

// list updates the lists of reservations and of bound pods.
func (c *Cluster) list(id string, r *record, k int) {
	if r.shape == nil {
		c.stand(id, r, k)
		return
	}
	if k > 0 {
		r.node.reserved = append(r.node.reserved, id)
	} else if i := slices.Index(r.node.reserved, id); i >= 0 {
		r.node.reserved = slices.Delete(r.node.reserved, i, i+1)
	}
	if c.pending[r.shape.key] += k; c.pending[r.shape.key] == 0 {
		delete(c.pending, r.shape.key)
	}
}

// PriorityOf returns the priority that admission set on the pod; 0 without a priority, as in the kube-scheduler.
func PriorityOf(pod *corev1.Pod) int32 {
	if pod.Spec.Priority == nil {
		return 0
	}
	return *pod.Spec.Priority
}
