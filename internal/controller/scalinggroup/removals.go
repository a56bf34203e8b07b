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

// removalReasons are the reasons of a kubelet's events about a pod that it does not run any more. Those of resources begin with OutOf.
var removalReasons = []string{
	"Evicted", "NodeAffinity", "NodeShutdown", "Preempting", "TaintToleration", "Terminated", "TopologyAffinityError",
	"UnexpectedAdmissionError",
}

// lookForRemoval finds why a kubelet ended a pod of the replica, where the pod's status does not say it: a kubelet that was restarted and
// does not admit a running pod again stops its containers, and then reports their exit codes alone. Each failure is looked at once.
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

// lastRemoval returns the last event by which a kubelet said that it does not run a pod any more; nil for none.
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
