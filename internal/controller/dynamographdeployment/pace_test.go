// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package dynamographdeployment

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/quota"
)

func TestCanWait(t *testing.T) {
	type status = nvidiav1beta1.DynamoGraphDeploymentStatus
	before := status{
		ObservedGeneration: 1, State: nvidiav1beta1.StatePending, Summary: "1/2", Provider: "Gates",
		Components: map[string]nvidiav1beta1.ComponentStatus{"Worker": {Replicas: 4}},
		Conditions: []metav1.Condition{{Type: nvidiav1beta1.ConditionReady, Status: metav1.ConditionFalse, Reason: "Waits", Message: "1 of 4"},
			{Type: nvidiav1beta1.ConditionPlaced, Status: metav1.ConditionFalse, Reason: "Waits"}},
		Restart: &nvidiav1beta1.RestartStatus{ObservedID: "a", Phase: nvidiav1beta1.RestartRestarting},
	}
	tests := map[string]struct {
		change func(*status)
		want   bool
	}{
		"counts":               {func(s *status) { s.Components["Worker"] = nvidiav1beta1.ComponentStatus{Replicas: 3} }, true},
		"a message":            {func(s *status) { s.Conditions[0].Message = "2 of 4" }, true},
		"its domain":           {func(s *status) { s.Placement = &nvidiav1beta1.PlacementStatus{Domain: "z"} }, true},
		"a condition turns":    {func(s *status) { s.Conditions[0].Status = metav1.ConditionTrue }, false},
		"why it is not Ready":  {func(s *status) { s.Conditions[0].Reason = "Lost" }, true},
		"why it is not Placed": {func(s *status) { s.Conditions[1].Reason = "Lost" }, false},
		"the state":            {func(s *status) { s.State = nvidiav1beta1.StateSuccessful }, false},
		"the summary":          {func(s *status) { s.Summary = "2/2" }, false},
		"another generation":   {func(s *status) { s.ObservedGeneration = 2 }, false},
		"a restart is over":    {func(s *status) { s.Restart.Phase = nvidiav1beta1.RestartCompleted }, false},
		"an update begins": {func(s *status) {
			s.RollingUpdate = &nvidiav1beta1.RollingUpdateStatus{Phase: nvidiav1beta1.RollingUpdatePending}
		}, false},
		"another provider": {func(s *status) { s.Provider = "KAI" }, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			now := before.DeepCopy()
			tc.change(now)
			if got := canWait(&before, now); got != tc.want {
				t.Errorf("it can wait: %t, want %t", got, tc.want)
			}
		})
	}
}

func TestBeginning(t *testing.T) {
	type status = nvidiav1beta1.DynamoGraphDeploymentStatus
	condition := func(kind, reason string, is metav1.ConditionStatus) metav1.Condition {
		return metav1.Condition{Type: kind, Status: is, Reason: reason}
	}
	now := status{ObservedGeneration: 1, State: nvidiav1beta1.StatePending, Summary: "0/1", Conditions: []metav1.Condition{
		condition(nvidiav1beta1.ConditionTopologyLevelsAvailable, nvidiav1beta1.ReasonAllTopologyLevelsAvailable, metav1.ConditionTrue),
		condition(nvidiav1beta1.ConditionPlaced, gang.CodeCreating, metav1.ConditionFalse),
		condition(nvidiav1beta1.ConditionReady, nvidiav1beta1.ReasonSomeResourcesNotReady, metav1.ConditionFalse),
	}}
	tests := map[string]struct {
		change func(before, now *status)
		want   bool
	}{
		"its pods are made": {func(_, _ *status) {}, true},
		"it is placed": {func(_, now *status) {
			now.Conditions[1] = condition(nvidiav1beta1.ConditionPlaced, nvidiav1beta1.ReasonAllReplicasPlaced, metav1.ConditionTrue)
		}, true},
		"there is no capacity": {func(_, now *status) { now.Conditions[1].Reason = placement.CodeInsufficientCapacity }, false},
		"a level is gone": {func(_, now *status) {
			now.Conditions[0] = condition(nvidiav1beta1.ConditionTopologyLevelsAvailable, nvidiav1beta1.ReasonTopologyLevelsUnavailable, metav1.ConditionFalse)
		}, false},
		"its pods start":  {func(_, now *status) { now.Conditions[2].Reason = nvidiav1beta1.ReasonPodsNotReady }, true},
		"it fails":        {func(_, now *status) { now.State = nvidiav1beta1.StateFailed }, false},
		"it is Ready":     {func(_, now *status) { now.State = nvidiav1beta1.StateSuccessful }, false},
		"it restarts":     {func(_, now *status) { now.Restart = &nvidiav1beta1.RestartStatus{} }, false},
		"it has a status": {func(before, now *status) { before.Conditions = now.Conditions }, false},
	}
	for name, tc := range tests {
		before, now := status{}, *now.DeepCopy()
		tc.change(&before, &now)
		if got := beginning(&before, &now, nil); got != tc.want {
			t.Errorf("%s: %t, want %t", name, got, tc.want)
		}
	}
}

// In a queue the first status waits for Kueue's first answer, and for what follows from it. What Kueue refuses is written at once.
func TestBeginningInAQueue(t *testing.T) {
	undecided := &quota.Report{Undecided: true, Reason: nvidiav1beta1.ReasonQuotaPending}
	pending := &quota.Report{Reason: nvidiav1beta1.ReasonQuotaPending}
	reserved := &quota.Report{Reserved: true, Reason: nvidiav1beta1.ReasonQuotaReserved}
	for name, tc := range map[string]struct {
		of     *quota.Report
		placed string
		want   bool
	}{
		"Kueue has not answered":                  {undecided, gang.CodeWaitingForAdmission, true},
		"it has no quota":                         {pending, gang.CodeWaitingForAdmission, false},
		"it has, and removes its gates":           {reserved, gang.CodeWaitingForAdmission, true},
		"it has, and there is no capacity":        {reserved, placement.CodeInsufficientCapacity, false},
		"in no queue, it waits for other's gates": {nil, gang.CodeWaitingForAdmission, false},
	} {
		now := nvidiav1beta1.DynamoGraphDeploymentStatus{State: nvidiav1beta1.StatePending, Conditions: []metav1.Condition{
			{Type: nvidiav1beta1.ConditionPlaced, Status: metav1.ConditionFalse, Reason: tc.placed},
		}}
		if tc.of != nil {
			c := metav1.Condition{Type: nvidiav1beta1.ConditionQuotaReserved, Status: metav1.ConditionFalse, Reason: tc.of.Reason}
			if tc.of.Reserved {
				c.Status = metav1.ConditionTrue
			}
			now.Conditions = append(now.Conditions, c)
		}
		if got := beginning(&nvidiav1beta1.DynamoGraphDeploymentStatus{}, &now, tc.of); got != tc.want {
			t.Errorf("%s: the first status waits: %v, want %v", name, got, tc.want)
		}
	}
}
