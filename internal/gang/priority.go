// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"math"

	corev1 "k8s.io/api/core/v1"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// lowerPriority lowers the graph's priority to the priority of a waiting pod, because a gang has only the priority of its least important
// pod. If the pod never preempts, by its priority class, the whole graph preempts nothing.
func (r *Request) lowerPriority(pod *corev1.Pod) {
	priority := topology.PriorityOf(pod)
	never := pod.Spec.PreemptionPolicy != nil && *pod.Spec.PreemptionPolicy == corev1.PreemptNever
	if !r.ranked {
		r.ranked = true
		r.Graph.Priority, r.Graph.Preempts = priority, !never
		return
	}
	r.Graph.Priority = min(r.Graph.Priority, priority)
	r.Graph.Preempts = r.Graph.Preempts && !never
}

// PreemptsBelow returns the priority below which bound pods count as capacity for the graph; the lowest possible priority when the graph
// preempts nothing.
func (r *Request) PreemptsBelow() int32 {
	if !r.Graph.Preempts {
		return math.MinInt32
	}
	return r.Graph.Priority
}

// maxVictims is the maximum number of replicas that a message names.
const maxVictims = 5
