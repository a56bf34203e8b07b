// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// standing ranks a bound pod as a candidate for preemption.
type standing struct {
	priority int32
	// leaving is set while the pod is being deleted. Such a pod need not be preempted.
	leaving *Leaving
	// started is the start time in seconds; of two pods with the same priority, the older pod is kept.
	started int64
	gang    string
}

func (s standing) equal(o standing) bool {
	same := s.leaving.equal(o.leaving)
	s.leaving, o.leaving = nil, nil
	return same && s == o
}

func (c *Cluster) standingOf(pod *corev1.Pod) standing {
	s := standing{priority: PriorityOf(pod), leaving: LeavingOf(pod), started: pod.CreationTimestamp.Unix()}
	if pod.Status.StartTime != nil {
		s.started = pod.Status.StartTime.Unix()
	}
	if c.GangOf != nil {
		s.gang = c.GangOf(pod)
	}
	return s
}

// Victim is a bound pod that a pod of higher priority may preempt.
type Victim struct {
	ID   string
	Node NodeID
	// Gang is the gang of the pod, or the pod's own ID if it has no gang. A gang that loses one pod loses its place.
	Gang     string
	Priority int32

	record *record
}

// AnyBelow reports whether any bound pod has a priority below the given priority. It reads only the number of pods per priority.
func (c *Cluster) AnyBelow(priority int32) bool {
	for p := range c.priorities {
		if p < priority {
			return true
		}
	}
	return false
}

// Victims appends a node's pods that have a priority below the given priority and are not already being deleted.
func (c *Cluster) Victims(list []Victim, n NodeID, below int32) []Victim {
	for _, id := range c.nodes[n].bound {
		r := c.pods[id]
		if r.leaving != nil || r.priority >= below {
			continue
		}
		list = append(list, Victim{ID: id, Node: n, Gang: cmp.Or(r.gang, id), Priority: r.priority, record: r})
	}
	return list
}

// Clear removes all bound pods and reservations from a node. Call it inside a transaction.
func (c *Cluster) Clear(n NodeID) {
	for _, id := range slices.Concat(c.nodes[n].bound, c.nodes[n].reserved) {
		c.DeletePod(id)
	}
}

// Evict removes a victim from its node. Call it inside a transaction.
func (c *Cluster) Evict(v Victim) { c.putPod(v.ID, nil) }

// Spare undoes Evict.
func (c *Cluster) Spare(v Victim) { c.putPod(v.ID, v.record) }

// SpareWhatFits restores the evicted pods of one node that still fit on the node, and returns the others. It uses the order in which the
// kube-scheduler reprieves victims: higher priority first, then longer runtime.
func (c *Cluster) SpareWhatFits(victims []Victim) (lost []Victim) {
	victims = slices.Clone(victims)
	slices.SortFunc(victims, func(a, b Victim) int {
		return cmp.Or(-cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.record.started, b.record.started), cmp.Compare(a.ID, b.ID))
	})
	for _, v := range victims {
		if c.fits(c.nodes[v.Node], v.record.held) > 0 {
			c.Spare(v)
		} else {
			lost = append(lost, v)
		}
	}
	return lost
}

// stand updates the list of bound pods and the numbers of pods per priority.
func (c *Cluster) stand(id string, r *record, k int) {
	if k > 0 {
		r.node.bound = append(r.node.bound, id)
	} else if i := slices.Index(r.node.bound, id); i >= 0 {
		last := len(r.node.bound) - 1
		r.node.bound[i] = r.node.bound[last]
		r.node.bound = r.node.bound[:last]
	}
	if r.leaving != nil {
		return
	}
	if c.priorities[r.priority] += k; c.priorities[r.priority] == 0 {
		delete(c.priorities, r.priority)
	}
}
