// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"cmp"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// whyUnbound returns the reason why a released replica is not bound, as a code and a message; "" if nothing is known.
func (o *Observation) whyUnbound(state replicaState) (code, message string) {
	if o.Failing != "" && state.releasing {
		return CodeReleaseRefused, o.Failing
	}
	for _, pod := range state.open {
		if why := o.Objections[pod.UID]; why.Message != "" && !why.Passing {
			return CodeSchedulerRefuses, "by Trellis' count it has capacity in " + OrCluster(state.path) + "; " +
				cmp.Or(o.Idle[topology.PodID(pod)], why.Message)
		}
	}
	if _, why := firstSaid(state.open, o.Idle); why != "" {
		return CodeSchedulingBlocked, why
	}
	if _, who := firstSaid(state.open, o.Preempting); who != "" {
		return CodePreempting, who
	}
	if pod, said := firstSaid(state.open, o.Unschedulable); said != "" {
		return CodeUnschedulable, fmt.Sprintf("the scheduler refuses pod %s, which is released to %s: %s", pod.Name, OrCluster(state.path), said)
	}
	return "", ""
}

// firstSaid returns the first of the pods with a text in the given map, and this text; "" for none. The keys of the map are pod IDs.
func firstSaid(pods []*corev1.Pod, said map[string]string) (*corev1.Pod, string) {
	for _, pod := range pods {
		if what := said[topology.PodID(pod)]; what != "" {
			return pod, what
		}
	}
	return nil, ""
}
