// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalinggroup

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/provider"
)

// countWorkload reports the replicas of a group whose provider creates the pods itself. The controller does not write pods of such a group.
func (r *Reconciler) countWorkload(ctx context.Context, sg *trellisv1alpha1.ScalingGroup, workload provider.Workload) (again time.Duration,
	err error) {
	seen, err := workload.Observe(ctx, r.Providers.Own(sg.Spec.Provider), []*trellisv1alpha1.ScalingGroup{sg})
	if err != nil {
		return 0, fmt.Errorf("reading the state of the workload of provider %s: %w", sg.Spec.Provider, err)
	}
	counts := seen.Counts[sg.Spec.Component]
	if seen.Blind && r.Providers.State(ctx, sg.Spec.Provider).Ready { // for a moment, for example when the operator has just started
		s := &sg.Status
		counts = provider.Counts{Replicas: s.Replicas, Updated: s.UpdatedReplicas, Scheduled: s.ScheduledReplicas, Ready: s.ReadyReplicas}
	}
	return r.report(ctx, sg, workloadStatus(sg, counts))
}

// workloadStatus returns the status with the provider's counts. An update or restart begins when the spec of the group has another revision
// or restart than the status, which has the last completed revision and restart. It ends when the provider reports its end, and does not
// begin again if the provider later replaces other pods of the graph.
func workloadStatus(sg *trellisv1alpha1.ScalingGroup, counts provider.Counts) trellisv1alpha1.ScalingGroupStatus {
	status := *sg.Status.DeepCopy()
	status.ObservedGeneration, status.FailedReplicas = sg.Generation, nil
	meta.RemoveStatusCondition(&status.Conditions, trellisv1alpha1.ConditionPodsHealthy)
	status.Replicas, status.UpdatedReplicas, status.ScheduledReplicas = counts.Replicas, counts.Updated, counts.Scheduled
	status.ReadyReplicas, status.AvailableReplicas = counts.Ready, counts.Ready
	c := metav1.Condition{
		Type: trellisv1alpha1.ConditionRolledOut, Status: metav1.ConditionTrue, ObservedGeneration: sg.Generation,
		Reason: trellisv1alpha1.ReasonUpToDate, Message: "no replica is of an older revision",
	}
	restart := ""
	if sg.Spec.Restart != nil {
		restart = sg.Spec.Restart.ID
	}
	isNew := status.Revision == ""
	if !isNew && (status.Revision != sg.Spec.Revision || status.Restart != restart) && !counts.RolledOut {
		if !counts.Current {
			status.UpdatedReplicas = 0
		}
		c.Status, c.Reason = metav1.ConditionFalse, trellisv1alpha1.ReasonRollingOut
		c.Message = fmt.Sprintf("%d of %d replicas are of the current revision, %d serve in all", status.UpdatedReplicas, sg.Spec.Replicas,
			status.AvailableReplicas)
	} else {
		status.Revision, status.Restart = sg.Spec.Revision, restart
	}
	meta.SetStatusCondition(&status.Conditions, c)
	return status
}
