// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
)

func TestCanWait(t *testing.T) {
	type status = nvidiav1beta1.DynamoGraphDeploymentStatus
	before := status{
		ObservedGeneration: 1, State: nvidiav1beta1.StatePending, Summary: "1/2", Provider: "Gates",
		Components: map[string]nvidiav1beta1.ComponentStatus{"Worker": {Replicas: 4}},
		Conditions: []metav1.Condition{{Type: nvidiav1beta1.ConditionReady, Status: metav1.ConditionFalse, Reason: "Waits", Message: "1 of 4"}},
		Restart:    &nvidiav1beta1.RestartStatus{ObservedID: "a", Phase: nvidiav1beta1.RestartRestarting},
	}
	tests := map[string]struct {
		change func(*status)
		want   bool
	}{
		"counts":             {func(s *status) { s.Components["Worker"] = nvidiav1beta1.ComponentStatus{Replicas: 3} }, true},
		"a message":          {func(s *status) { s.Conditions[0].Message = "2 of 4" }, true},
		"its domain":         {func(s *status) { s.Placement = &nvidiav1beta1.PlacementStatus{Domain: "z"} }, true},
		"a condition turns":  {func(s *status) { s.Conditions[0].Status = metav1.ConditionTrue }, false},
		"another reason":     {func(s *status) { s.Conditions[0].Reason = "Lost" }, false},
		"the state":          {func(s *status) { s.State = nvidiav1beta1.StateSuccessful }, false},
		"the summary":        {func(s *status) { s.Summary = "2/2" }, false},
		"another generation": {func(s *status) { s.ObservedGeneration = 2 }, false},
		"a restart is over":  {func(s *status) { s.Restart.Phase = nvidiav1beta1.RestartCompleted }, false},
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
