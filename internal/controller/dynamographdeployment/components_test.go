// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package dynamographdeployment

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/gang"
)

// The Dynamo planner takes desired == updated == available for the end of a rollout, whatever else the status says.
func TestCountersOfServices(t *testing.T) {
	updated := func(change func(*observed)) int32 {
		o := fine()
		o.dgd.Status.Components = map[string]nvidiav1beta1.ComponentStatus{"work": {UpdatedReplicas: 0}}
		change(&o)
		return statusOf(o, resolved, nil, nil).Components["work"].UpdatedReplicas
	}
	for name, c := range map[string]struct {
		change func(*observed)
		want   int32
	}{
		"counted":                           {func(*observed) {}, 2},
		"another revision is wanted":        {func(o *observed) { o.groups["work"].Spec.Revision = "before" }, 0},
		"a new revision is not counted yet": {func(o *observed) { o.groups["work"].Generation++ }, 0},
		"scaled, and that not counted yet": {func(o *observed) {
			o.groups["work"].Generation++
			o.dgd.Status.Components["work"] = nvidiav1beta1.ComponentStatus{UpdatedReplicas: 2}
		}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			if got := updated(c.change); got != c.want {
				t.Errorf("updatedReplicas = %d, want %d", got, c.want)
			}
		})
	}

	o := fine()
	o.groups["work"].Spec.Roles = []trellisv1alpha1.Role{{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{
		{Name: "sidecar"}, {Name: "main", Env: []corev1.EnvVar{{Name: "DYN_NAMESPACE", Value: "team-g"}}},
	}}}}}
	want := nvidiav1beta1.ComponentStatus{
		ComponentKind: "ScalingGroup", ComponentNames: []string{"g-work"}, RuntimeNamespace: "team-g",
		Replicas: 2, UpdatedReplicas: 2, ReadyReplicas: ptr.To[int32](2), AvailableReplicas: ptr.To[int32](2), ScheduledReplicas: ptr.To[int32](2),
		Placements: []nvidiav1beta1.ReplicaPlacement{{Replica: 0, Domain: "a/r1"}, {Replica: 1, Domain: "a/r2"}},
	}
	if diff := cmp.Diff(want, statusOf(o, resolved, nil, nil).Components["work"]); diff != "" {
		t.Errorf("status of the service (-want +got):\n%s", diff)
	}
}

func TestPlacementState(t *testing.T) {
	for want, change := range map[string]func(*observed){
		"Reported": func(*observed) {},
		"Partial":  func(o *observed) { o.result.Placed = 1 },
		"Unknown":  func(o *observed) { o.judged = false },
	} {
		o := fine()
		o.dgd.Status.Placement = &nvidiav1beta1.PlacementStatus{Domain: "a"}
		change(&o)
		if got := statusOf(o, resolved, nil, nil).Placement.State; got != want {
			t.Errorf("state = %s, want %s", got, want)
		}
	}
}

func TestEventFor(t *testing.T) {
	cond := func(kind string, status metav1.ConditionStatus, reason string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, Reason: reason}
	}
	const levels = nvidiav1beta1.ConditionTopologyLevelsAvailable
	const ready, notReady, rolling = nvidiav1beta1.ConditionReady, nvidiav1beta1.ReasonSomeResourcesNotReady, nvidiav1beta1.ReasonRollingUpdate
	cases := map[string]struct {
		before   *metav1.Condition
		now      metav1.Condition
		changing bool
		want     string
	}{
		"turned False":                 {ptr.To(cond(levels, "True", "A")), cond(levels, "False", "B"), false, corev1.EventTypeWarning},
		"False from the first":         {nil, cond(levels, "False", "B"), false, corev1.EventTypeWarning},
		"another reason while False":   {ptr.To(cond(levels, "False", "A")), cond(levels, "False", "B"), false, corev1.EventTypeWarning},
		"the same again":               {ptr.To(cond(levels, "False", "B")), cond(levels, "False", "B"), false, ""},
		"turned True":                  {ptr.To(cond(levels, "False", "B")), cond(levels, "True", "A"), false, corev1.EventTypeNormal},
		"a new graph is not ready yet": {nil, cond(ready, "False", notReady), true, ""},
		"a new graph cannot be made":   {nil, cond(ready, "False", nvidiav1beta1.ReasonFailedToReconcile), true, corev1.EventTypeWarning},
		"the provider works":           {nil, cond(nvidiav1beta1.ConditionProviderReady, "True", "A"), false, ""},
		"the provider works again":     {ptr.To(cond(nvidiav1beta1.ConditionProviderReady, "False", "B")), cond(nvidiav1beta1.ConditionProviderReady, "True", "A"), false, corev1.EventTypeNormal},
		"pods are being made":          {nil, cond(nvidiav1beta1.ConditionPlaced, "False", gang.CodeCreating), false, ""},
		"a replica was lost":           {ptr.To(cond(ready, "True", "A")), cond(ready, "False", notReady), false, corev1.EventTypeWarning},
		"it was scaled out":            {ptr.To(cond(ready, "True", "A")), cond(ready, "False", notReady), true, corev1.EventTypeNormal},
		"no capacity to scale out":     {ptr.To(cond(ready, "True", "A")), cond(ready, "False", nvidiav1beta1.ReasonInsufficientCapacity), true, corev1.EventTypeWarning},
		"rolling":                      {ptr.To(cond(ready, "True", "A")), cond(ready, "False", rolling), false, corev1.EventTypeNormal},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got, _ := eventFor(c.before, c.now, c.changing); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// TestChanging: what was asked for shows first in the deployment's generation, then in a scaling group's.
func TestChanging(t *testing.T) {
	group := func(generation, observed int64) *trellisv1alpha1.ScalingGroup {
		sg := &trellisv1alpha1.ScalingGroup{}
		sg.Generation, sg.Status.ObservedGeneration = generation, observed
		return sg
	}
	cases := map[string]struct {
		written int64
		groups  map[string]*trellisv1alpha1.ScalingGroup
		want    bool
	}{
		"all is done":                   {2, map[string]*trellisv1alpha1.ScalingGroup{"a": group(3, 3)}, false},
		"the deployment was changed":    {1, map[string]*trellisv1alpha1.ScalingGroup{"a": group(3, 3)}, true},
		"a scaling group has to follow": {2, map[string]*trellisv1alpha1.ScalingGroup{"a": group(3, 3), "b": group(4, 3)}, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			dgd := &nvidiav1beta1.DynamoGraphDeployment{}
			dgd.Generation = 2
			if got := changing(observed{dgd: dgd, groups: c.groups}, &metav1.Condition{ObservedGeneration: c.written}); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func TestPlacementOfAGraph(t *testing.T) {
	got := statusOf(fine(), resolved, nil, nil)
	if got.Placement == nil || got.Placement.Domain != "a" || got.Placement.Score == nil || *got.Placement.Score != 1 {
		t.Errorf("placement = %+v, want domain a and score 1", got.Placement)
	}
	want := []nvidiav1beta1.ReplicaPlacement{{Replica: 0, Domain: "a/r1"}, {Replica: 1, Domain: "a/r2"}}
	if diff := cmp.Diff(want, got.Components["work"].Placements); diff != "" {
		t.Errorf("placements (-want +got):\n%s", diff)
	}
	if got.Summary != "1/1" {
		t.Errorf("summary = %q, want 1/1", got.Summary)
	}
}
