// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// EndsWithin is how long a deleted pod may still exist after the end of the pod's grace period before Trellis reports it. The kubelet needs
// time to confirm the pod's termination.
const EndsWithin = 30 * time.Second

// EndsBy returns the time by which a deleted pod should no longer exist; false for a pod without a deletion timestamp.
func EndsBy(pod *corev1.Pod) (by time.Time, deleted bool) {
	if pod.DeletionTimestamp == nil {
		return time.Time{}, false
	}
	return pod.DeletionTimestamp.Add(EndsWithin), true
}

// NotEnding returns a message about a deleted pod that still exists at the time that [EndsBy] returns; "" for other pods. ready reports
// whether a node is ready.
func NotEnding(pod *corev1.Pod, now time.Time, ready func(node string) bool) string {
	by, deleted := EndsBy(pod)
	if !deleted || now.Before(by) {
		return ""
	}
	where := ""
	if node := pod.Spec.NodeName; node != "" {
		where = " on node " + node
		if !ready(node) {
			where += ", which is not ready,"
		}
	}
	return fmt.Sprintf("pod %s%s has been terminating since %s, beyond its grace period", pod.Name, where,
		clock(topology.LeavingOf(pod).Since))
}
