// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/cli/text"
	"github.com/trellis-k8s/trellis/test/testutil/golden"
)

var noon = time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)

func waiting(namespace, name, class string, age, since time.Duration, status metav1.ConditionStatus) nvidiav1beta1.DynamoGraphDeployment {
	dgd := nvidiav1beta1.DynamoGraphDeployment{}
	dgd.Namespace, dgd.Name, dgd.Spec.PriorityClassName = namespace, name, class
	dgd.CreationTimestamp = metav1.NewTime(noon.Add(-age))
	dgd.Status.Conditions = []metav1.Condition{{
		Type: nvidiav1beta1.ConditionPlaced, Status: status, Reason: "InsufficientCapacity", LastTransitionTime: metav1.NewTime(noon.Add(-since)),
		Message: "1 of 2 packed replicas are placed. Worker-1: needs 2 pods x 8 nvidia.com/gpu in one rack; zone-0/block-0/rack-1 holds 1 of 2 (1 host cordoned); 3 other racks hold fewer",
	}}
	return dgd
}

func world() Snapshot {
	class := func(name string, value int32, fallback bool) schedulingv1.PriorityClass {
		return schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value, GlobalDefault: fallback}
	}
	mixed := waiting("team-b", "mixed", "high", 3*time.Hour, time.Minute, metav1.ConditionFalse)
	mixed.Spec.Components = []nvidiav1beta1.ComponentSpec{
		{Name: "a"}, {Name: "b", PodTemplate: &corev1.PodTemplateSpec{Spec: corev1.PodSpec{PriorityClassName: "low"}}},
	}
	leaving := waiting("team-a", "leaving", "high", time.Hour, time.Hour, metav1.ConditionFalse)
	leaving.DeletionTimestamp = &metav1.Time{Time: noon}
	return Snapshot{
		Priorities: []schedulingv1.PriorityClass{class("high", 1000, false), class("low", -5, false), class("usual", 10, true)},
		Graphs: []nvidiav1beta1.DynamoGraphDeployment{
			waiting("team-a", "young", "", time.Minute, 50*time.Second, metav1.ConditionFalse), waiting("team-a", "old", "", 2*time.Hour, 100*time.Minute, metav1.ConditionFalse),
			waiting("team-b", "eval", "high", time.Minute, 55*time.Second, metav1.ConditionFalse), waiting("team-b", "placed", "high", time.Minute, 55*time.Second, metav1.ConditionTrue),
			waiting("team-c", "newest", "", time.Second, time.Second, metav1.ConditionFalse), mixed, leaving, {ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "not-looked-at-yet"}},
		},
	}
}

// TestText: higher priority first, then the namespaces in turn, each with its oldest first; what is placed, leaves, or was not looked at yet does not wait.
func TestText(t *testing.T) {
	golden.Check(t, "testdata/all.golden", Build(world()).Text(text.Page{}, noon))
	one := world()
	one.Only, one.Denied = "team-a", []string{"list priorityclasses.scheduling.k8s.io"}
	golden.Check(t, "testdata/namespace.golden", Build(one).Text(text.Page{}, noon))
	golden.Check(t, "testdata/nothing.golden", Build(Snapshot{}).Text(text.Page{}, noon))
}
