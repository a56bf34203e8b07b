// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package dynamographdeployment

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
)

// TestMovedCondition joins what the components report, and is absent when none of them does.
func TestMovedCondition(t *testing.T) {
	group := func(reason, message string) *trellisv1alpha1.ScalingGroup {
		sg := &trellisv1alpha1.ScalingGroup{}
		if reason != "" {
			sg.Status.Conditions = []metav1.Condition{{
				Type: trellisv1alpha1.ConditionMoved, Status: metav1.ConditionFalse, Reason: reason, Message: message,
			}}
		}
		return sg
	}
	o := observed{dgd: &nvidiav1beta1.DynamoGraphDeployment{}, groups: map[string]*trellisv1alpha1.ScalingGroup{"A": group("", "")}}
	o.dgd.Spec.Components = []nvidiav1beta1.ComponentSpec{{Name: "A"}, {Name: "B"}, {Name: "C"}}
	if c := movedCondition(o); c != nil {
		t.Errorf("nothing moves, and the condition is %+v", c)
	}
	o.groups["B"] = group(trellisv1alpha1.ReasonMoving, "moving B-0")
	if c := movedCondition(o); c == nil || c.is || c.reason != nvidiav1beta1.ReasonMoving || c.message != "moving B-0" {
		t.Errorf("the condition is %+v", c)
	}
	o.groups["C"] = group(trellisv1alpha1.ReasonMoveWaits, "moving C-1")
	if c := movedCondition(o); c == nil || c.reason != nvidiav1beta1.ReasonMoveWaits || c.message != "moving B-0. moving C-1" {
		t.Errorf("the condition is %+v", c)
	}
}

// TestASurplusOfAMoveIsReady: a component that serves as wanted is ready while a successor exists.
func TestASurplusOfAMoveIsReady(t *testing.T) {
	sg := &trellisv1alpha1.ScalingGroup{}
	sg.Spec.Replicas = 2
	sg.Status = trellisv1alpha1.ScalingGroupStatus{Replicas: 3, UpdatedReplicas: 3, ReadyReplicas: 2, AvailableReplicas: 2}
	s := component{name: "A", desired: 2, group: sg}
	if s.notReady() == "" {
		t.Error("a replica is left that is not wanted, and the component is ready")
	}
	sg.Status.Moves = []trellisv1alpha1.ReplicaMove{{Replica: 1}}
	if why := s.notReady(); why != "" {
		t.Errorf("a replica moves, and the component is not ready: %s", why)
	}
}
