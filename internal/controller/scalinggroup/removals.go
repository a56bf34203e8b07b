// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalinggroup

import (
	"context"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/limit"
)

// removalReasons are the event reasons with which a kubelet reports that it no longer runs a pod. Further reasons, about resources, begin
// with OutOf.
var removalReasons = []string{
	"Evicted", "NodeAffinity", "NodeShutdown", "Preempting", "TaintToleration", "Terminated", "TopologyAffinityError",
	"UnexpectedAdmissionError",
}

// lookForRemoval finds in the events why a kubelet ended a pod of the replica, if the pod's status does not name the reason. For example, a
// restarted kubelet that does not admit a running pod again stops the pod's containers and reports only their exit codes. The events are
// read once for each failure.
func (p *pass) lookForRemoval(ctx context.Context, one *replica, now time.Time) {
	pod := one.failedPod()
	if pod == nil || pod.Spec.NodeName == "" || pod.Status.Reason != "" || evictedBy(pod) != "" || counted(p.sg, one.ordinal, pod) ||
		!p.causes.allow(now) {
		return
	}
	event, err := lastEvent(ctx, p.Live, pod, lastRemoval)
	if err != nil {
		log.FromContext(ctx).Error(err, "reading the events of a pod that ended", "pod", pod.Name)
		return
	}
	if event != nil {
		one.causes[pod.UID] = podCause{text: limit.Middle(strings.TrimSpace(event.Reason+": "+strings.TrimSpace(event.Message)), maxCause)}
	}
}

// counted reports whether the failure of a pod is stored.
func counted(sg *trellisv1alpha1.ScalingGroup, ordinal int32, pod *corev1.Pod) bool {
	return slices.ContainsFunc(sg.Status.FailedReplicas, func(f trellisv1alpha1.FailedReplica) bool {
		return f.Replica == ordinal && !pod.CreationTimestamp.After(f.NewestPod.Time)
	})
}

// lastRemoval returns the last event in which a kubelet reports that it no longer runs a pod; nil for none.
func lastRemoval(events []corev1.Event) (last *corev1.Event) {
	for i := range events {
		e := &events[i]
		removal := slices.Contains(removalReasons, e.Reason) || strings.HasPrefix(e.Reason, "OutOf")
		if removal && e.Type == corev1.EventTypeWarning && teller(e) == tellers[0] && (last == nil || toldAt(e).After(toldAt(last))) {
			last = e
		}
	}
	return last
}
