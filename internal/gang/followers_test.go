// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/placement"
)

// The first replica of a component that shares a rack decides which one: the others wait until it is created, unless that may take long, and for its
// creation in place.
func TestReplicasFollowTheOneThatDecides(t *testing.T) {
	notInSync := metav1.Condition{Type: trellisv1alpha1.ConditionPodsInSync, Status: metav1.ConditionFalse}
	unhealthy := metav1.Condition{Type: trellisv1alpha1.ConditionPodsHealthy, Status: metav1.ConditionFalse}
	for name, tc := range map[string]struct {
		// how are the three replicas: gated, in place (asked), open, or absent.
		// "taken" is absent, and an earlier group's pod has its name.
		how        [3]string
		graph      string
		conditions []metav1.Condition
		placed     []int
		following  []int
	}{
		"all are gated":                       {how: [3]string{"gated", "gated", "gated"}, placed: []int{0, 1, 2}},
		"the first is to be created":          {how: [3]string{"absent", "gated", "gated"}, following: []int{1, 2}},
		"its create is refused":               {how: [3]string{"absent", "gated", "gated"}, conditions: []metav1.Condition{notInSync}, placed: []int{1, 2}},
		"its name is taken":                   {how: [3]string{"taken", "gated", "gated"}, placed: []int{1, 2}},
		"it fails":                            {how: [3]string{"absent", "gated", "gated"}, conditions: []metav1.Condition{unhealthy}, placed: []int{1, 2}},
		"another one is to be created":        {how: [3]string{"gated", "absent", "gated"}, placed: []int{0, 2}},
		"all are created in place":            {how: [3]string{"in place", "in place", "in place"}, placed: []int{0}, following: []int{1, 2}},
		"the first is created in place":       {how: [3]string{"in place", "gated", "gated"}, placed: []int{0}, following: []int{1, 2}},
		"others are created in place":         {how: [3]string{"gated", "in place", "gated"}, placed: []int{0, 2}, following: []int{1}},
		"one runs":                            {how: [3]string{"absent", "open", "gated"}, placed: []int{2}},
		"one runs, others are made in place":  {how: [3]string{"in place", "open", "in place"}, placed: []int{0, 2}},
		"one is of the base gang":             {how: [3]string{"gated", "absent", "gated"}, graph: "rack", placed: []int{0, 2}},
		"the graph has the domain, all gated": {how: [3]string{"gated", "gated", "gated"}, graph: "rack", placed: []int{0, 1, 2}},
	} {
		t.Run(name, func(t *testing.T) {
			sg := newGroup("work", 3, 1, frozen(tc.graph, "rack"))
			sg.Status.Conditions = tc.conditions
			o := Observation{
				DGD:    &nvidiav1beta1.DynamoGraphDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "g"}},
				Groups: []*trellisv1alpha1.ScalingGroup{sg}, Profile: profile, Creations: Creations{sg.UID: {}},
			}
			for ordinal, how := range tc.how {
				pod := newPod(sg, int32(ordinal), 0)
				switch how {
				case "gated":
					o.Pods = append(o.Pods, pod)
				case "taken":
					pod.OwnerReferences[0].UID = "earlier"
					o.Pods = append(o.Pods, pod)
				case "open":
					o.Pods = append(o.Pods, newPod(sg, int32(ordinal), 0, "z", "a"))
				case "in place":
					pod.UID = PlannedUID(fmt.Sprint("c", ordinal), pod.Name)
					pod.Spec.SchedulingGates = nil
					o.Creations[sg.UID][int32(ordinal)] = &Creation{Pods: []*corev1.Pod{pod}}
				}
			}
			c := NewCluster()
			c.SetNode(host("a0", "a", 4))
			r := NewRequest(o)
			planned := placement.PlanGraph(c, r.Graph, placement.Options{})
			answer := r.Answer(&planned)
			ordinals := func(of []placement.ReplicaResult) (out []int) {
				for _, one := range of {
					out = append(out, one.Ordinal)
				}
				return out
			}
			if diff := cmp.Diff(tc.placed, ordinals(answer.Placed)); diff != "" {
				t.Errorf("placed (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.following, ordinals(answer.Following)); diff != "" {
				t.Errorf("following (-want +got):\n%s", diff)
			}
		})
	}
}
