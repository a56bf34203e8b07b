// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/limit"
	"github.com/trellis-k8s/trellis/internal/topology"
)

const (
	// refusalShownAfter is the minimum age of a refusal before it is reported, since the scheduler may bind the pod at its next try.
	refusalShownAfter = time.Second
	// maxRefusal is the maximum length, in bytes, of a scheduler's message in a report, since the message is long with many nodes and
	// reasons.
	maxRefusal = 400
)

// unschedulable returns, by pod ID, the scheduler's messages about released pods that it refuses. If a refusal is too recent to be
// reported, the graph is evaluated again when the report is due. Pods with a nominated node are omitted, since the scheduler frees capacity
// for them. Pods with objections in the provider's objects are also omitted, since these objections are reported instead.
func (e *evaluation) unschedulable(o *gang.Observation) map[string]string {
	out, now := map[string]string{}, e.clock.Now()
	for _, pod := range o.Pods {
		id := topology.PodID(pod)
		refused := e.pods.of(id).stuck
		if !refused.stands() || !mayBind(pod) || o.Objections[pod.UID].Message != "" {
			continue
		}
		if due := refused.since.Add(refusalShownAfter); now.Before(due) {
			e.d.lookAt(due)
			continue
		}
		out[id] = limit.Text(refused.said, maxRefusal)
	}
	return out
}

// mayBind reports whether a pod waits only for the decision of its scheduler.
func mayBind(pod *corev1.Pod) bool {
	return gang.WaitsForScheduler(pod) && len(pod.Spec.SchedulingGates) == 0 && pod.Status.NominatedNodeName == ""
}
