// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalinggroup

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/limit"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/rollout"
)

// statusOf returns the status with the current counts of the replicas. failure is the error that kept the controller from creating or
// deleting pods in this reconcile, or nil.
func statusOf(sg *trellisv1alpha1.ScalingGroup, replicas map[int32]*replica, next rollout.Plan, failure error,
) trellisv1alpha1.ScalingGroupStatus {
	status := *sg.Status.DeepCopy()
	status.ObservedGeneration = sg.Generation
	status.Replicas, status.UpdatedReplicas, status.ScheduledReplicas = 0, 0, 0
	status.ReadyReplicas, status.AvailableReplicas, status.OutdatedReplicas = 0, 0, 0
	status.UpdatedAvailableReplicas, status.TerminatingReplicas = 0, 0
	status.Pods, status.Selector = 0, labels.FormatLabels(render.Selector(sg.Spec.Graph, sg.Name))
	for _, r := range replicas {
		status.Pods += int32(len(r.pods))
		count(&status.Replicas, r.there())
		count(&status.OutdatedReplicas, r.there() && r.outdated)
		count(&status.TerminatingReplicas, !r.there() && r.outdated)
		if !r.whole() {
			continue
		}
		count(&status.UpdatedReplicas, !r.outdated)
		count(&status.ScheduledReplicas, r.all(podBound))
		count(&status.ReadyReplicas, r.all(render.PodReady))
		count(&status.AvailableReplicas, r.available())
		count(&status.UpdatedAvailableReplicas, !r.outdated && r.available())
	}
	setMoved(sg, replicas, &status)
	status.Generations = generationsOf(sg, replicas)
	status.Placements, status.FurtherPlacements = nil, nil //nolint:staticcheck // earlier releases set these fields
	meta.RemoveStatusCondition(&status.Conditions, trellisv1alpha1.ConditionPlacementsComplete)
	inPlace := rollout.InPlace(sg) || rollout.For(sg).LacksQuota(summaries(sg, replicas))
	waiting := notAvailable(replicas)
	if inPlace {
		waiting = append([]string{saysInPlace}, waiting...)
	}
	rolledOut := rolledOutCondition(sg, &status, next, waiting)
	if rolledOut.Status == metav1.ConditionTrue {
		status.Revision = sg.Spec.Revision
	}
	status.Progress = progressOf(sg, &status, rolledOut.Status == metav1.ConditionTrue, inPlace, metav1.Now())
	meta.SetStatusCondition(&status.Conditions, podsCondition(sg, failure))
	meta.SetStatusCondition(&status.Conditions, rolledOut)
	return status
}

// saysInPlace is the message about an update that gets no quota for its surplus replica.
const saysInPlace = "the queue has no quota for a surplus replica, so one replica at a time is replaced within its quota"

// rolledOutCondition returns the condition RolledOut. An update or restart is over when no replica is outdated and at least the wanted
// number of replicas serve. If a replica is lost later, the update does not begin again. waiting describes why new replicas are not
// available.
func rolledOutCondition(sg *trellisv1alpha1.ScalingGroup, status *trellisv1alpha1.ScalingGroupStatus, next rollout.Plan,
	waiting []string) metav1.Condition {
	c := metav1.Condition{
		Type: trellisv1alpha1.ConditionRolledOut, Status: metav1.ConditionTrue, ObservedGeneration: sg.Generation,
		Reason: trellisv1alpha1.ReasonUpToDate, Message: "no replica is of an older revision",
	}
	stopped := sg.Spec.Restart != nil && sg.Spec.Restart.Stop
	begun := stopped || status.OutdatedReplicas > 0 || status.Revision != "" && status.Revision != sg.Spec.Revision ||
		meta.IsStatusConditionFalse(status.Conditions, trellisv1alpha1.ConditionRolledOut)
	if !begun || !stopped && status.OutdatedReplicas == 0 && status.AvailableReplicas >= sg.Spec.Replicas {
		return c
	}
	c.Status, c.Reason = metav1.ConditionFalse, trellisv1alpha1.ReasonRollingOut
	if next.Blocked {
		c.Reason = trellisv1alpha1.ReasonRolloutWaitsForCapacity
	}
	c.Message = fmt.Sprintf("%d of %d replicas serve the current revision, %d serve in all",
		status.UpdatedAvailableReplicas, sg.Spec.Replicas, status.AvailableReplicas)
	if next.Waits != "" {
		c.Message += "; " + next.Waits
	}
	for _, why := range waiting {
		c.Message += "; " + why
	}
	c.Message = limit.Text(c.Message, limit.Condition)
	return c
}

func count(n *int32, is bool) {
	if is {
		*n++
	}
}

func podsCondition(sg *trellisv1alpha1.ScalingGroup, failure error) metav1.Condition {
	c := metav1.Condition{
		Type: trellisv1alpha1.ConditionPodsInSync, Status: metav1.ConditionTrue, ObservedGeneration: sg.Generation,
		Reason: trellisv1alpha1.ReasonInSync, Message: "all changes to pods were accepted",
	}
	if failure != nil {
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, trellisv1alpha1.ReasonChangeRefused, limit.Text(failure.Error(), limit.Condition)
	}
	return c
}
