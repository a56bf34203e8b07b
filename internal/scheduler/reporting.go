// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
)

// Metrics about the problems that deployments report, and about the updates of deployments. They are read from the cache when metrics are
// gathered.
var (
	graphsReporting = desc("trellis_graphs_reporting",
		"Deployments that report a problem, by condition and reason.", "condition", "reason")
	longestReport = desc("trellis_longest_report_seconds",
		"How long the condition has reported a problem on the deployment where it has done so longest; 0 where none does.", "condition")
	rolloutsInPlace = desc("trellis_rollouts_in_place",
		"Components whose update replaces one replica at a time within its quota, since there is no quota for a surplus replica.")
	longestStall = desc("trellis_longest_rollout_stall_seconds",
		"Time since the update that has made no progress for longest made some; paused updates do not count; 0 where none is in progress.")
)

// otherReason is the label value for all reasons that problemReasons does not list.
const otherReason = "other"

// problemReasons are the conditions that report a problem, each with the reasons that have a separate series.
var problemReasons = map[string][]string{
	nvidiav1beta1.ConditionValid:             {nvidiav1beta1.ReasonInvalid},
	nvidiav1beta1.ConditionWithinPodLimit:    {nvidiav1beta1.ReasonPodLimitExceeded},
	nvidiav1beta1.ConditionOrphansAdopted:    {nvidiav1beta1.ReasonOrphansLeft},
	nvidiav1beta1.ConditionOwnershipConflict: {nvidiav1beta1.ReasonOwnershipConflict},
	nvidiav1beta1.ConditionPrerequisitesMet:  {nvidiav1beta1.ReasonPrerequisitesMissing},
	nvidiav1beta1.ConditionTopologyLevelsAvailable: {
		nvidiav1beta1.ReasonTopologyLevelsUnavailable, nvidiav1beta1.ReasonTopologyDefinitionNotFound,
	},
	nvidiav1beta1.ConditionProviderReady: {
		nvidiav1beta1.ReasonAPINotServed, nvidiav1beta1.ReasonFieldsDropped, nvidiav1beta1.ReasonProviderUnsupported,
		nvidiav1beta1.ReasonProviderNotChecked,
	},
	nvidiav1beta1.ConditionQuotaReserved: {
		nvidiav1beta1.ReasonQuotaPending, nvidiav1beta1.ReasonKueueNotInstalled, nvidiav1beta1.ReasonKueueNotReadable,
		nvidiav1beta1.ReasonTooManyRoles, nvidiav1beta1.ReasonFlavorHasTopology, nvidiav1beta1.ReasonProviderUnsupported,
	},
	nvidiav1beta1.ConditionPlaced: append(slices.Clone(waitReasons), nvidiav1beta1.ReasonCreationRefused),
	nvidiav1beta1.ConditionRolledOut: {
		nvidiav1beta1.ReasonRollingOut, nvidiav1beta1.ReasonRolloutWaitsForCapacity, nvidiav1beta1.ReasonRolloutPaused,
		nvidiav1beta1.ReasonRolledBack, nvidiav1beta1.ReasonProgressDeadlineExceeded,
	},
}

// reports reports whether a condition reports a problem.
func reports(c *metav1.Condition) bool {
	if c.Type == nvidiav1beta1.ConditionOwnershipConflict {
		return c.Status == metav1.ConditionTrue
	}
	return c.Status == metav1.ConditionFalse
}

// conditions collects the gauges of reported problems and of updates.
func (r *readings) conditions(ctx context.Context, s *Scheduler) {
	now := s.options.Clock.Now()
	graphs := &nvidiav1beta1.DynamoGraphDeploymentList{}
	if err := s.objects.reader.List(ctx, graphs, client.UnsafeDisableDeepCopy); err != nil {
		log.FromContext(ctx).Error(err, "listing deployments for metrics")
		return
	}
	r.problems(graphs.Items, now)
	groups := &trellisv1alpha1.ScalingGroupList{}
	if err := s.objects.reader.List(ctx, groups, client.UnsafeDisableDeepCopy); err != nil {
		log.FromContext(ctx).Error(err, "listing scaling groups for metrics")
		return
	}
	r.updates(groups.Items, now)
}

// problems counts the conditions of deployments that report a problem. Unlisted reasons count as other, so that the number of series is
// fixed.
func (r *readings) problems(graphs []nvidiav1beta1.DynamoGraphDeployment, now time.Time) {
	type key struct{ condition, reason string }
	counts, longest := map[key]int{}, map[string]time.Duration{}
	for i := range graphs {
		for j := range graphs[i].Status.Conditions {
			c := &graphs[i].Status.Conditions[j]
			known, listed := problemReasons[c.Type]
			if !listed || !reports(c) || graphs[i].DeletionTimestamp != nil {
				continue
			}
			reason := c.Reason
			if !slices.Contains(known, reason) {
				reason = otherReason
			}
			counts[key{c.Type, reason}]++
			longest[c.Type] = max(longest[c.Type], now.Sub(c.LastTransitionTime.Time))
		}
	}
	for _, condition := range slices.Sorted(maps.Keys(problemReasons)) {
		for _, reason := range append(slices.Clone(problemReasons[condition]), otherReason) {
			r.gauge(graphsReporting, float64(counts[key{condition, reason}]), condition, reason)
		}
		r.gauge(longestReport, longest[condition].Seconds(), condition)
	}
}

// updates adds the gauges of in-place updates and of the longest stall: the longest time since any component of an updating, unpaused
// deployment made progress.
func (r *readings) updates(groups []trellisv1alpha1.ScalingGroup, now time.Time) {
	inPlace := 0
	last, running, paused := map[types.NamespacedName]time.Time{}, map[types.NamespacedName]bool{}, map[types.NamespacedName]bool{}
	for i := range groups {
		sg := &groups[i]
		graph := types.NamespacedName{Namespace: sg.Namespace, Name: sg.Spec.Graph}
		at := endOfUpdate(sg)
		if p := sg.Status.Progress; p != nil {
			at, running[graph], paused[graph] = p.Time.Time, true, paused[graph] || p.Paused
			if p.InPlace {
				inPlace++
			}
		}
		if at.After(last[graph]) {
			last[graph] = at
		}
	}
	stall := time.Duration(0)
	for graph := range running {
		if !paused[graph] {
			stall = max(stall, now.Sub(last[graph]))
		}
	}
	r.gauge(rolloutsInPlace, float64(inPlace))
	r.gauge(longestStall, stall.Seconds())
}

// endOfUpdate returns when the last update of a group ended; zero if there was no update, or an update is in progress.
func endOfUpdate(sg *trellisv1alpha1.ScalingGroup) time.Time {
	c := meta.FindStatusCondition(sg.Status.Conditions, trellisv1alpha1.ConditionRolledOut)
	if c == nil || c.Status != metav1.ConditionTrue {
		return time.Time{}
	}
	return c.LastTransitionTime.Time
}
