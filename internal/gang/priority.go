// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"math"

	corev1 "k8s.io/api/core/v1"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// lowerPriority makes the graph's priority that of the least important pod that waits: all of the gang may ask for no more than that.
// Whether a pod preempts at all is what its priority class says.
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

// PreemptsBelow is the priority below which bound pods are capacity for the graph; the least there is when it preempts nothing.
func (r *Request) PreemptsBelow() int32 {
	if !r.Graph.Preempts {
		return math.MinInt32
	}
	return r.Graph.Priority
}

// maxVictims is how many replicas a message names.
const maxVictims = 5
