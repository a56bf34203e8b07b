// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/assignment"
	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// Planned pods have the same ID at each attempt; their gangs have other names. All replicas of a component that shares a rack are placed at
// once.
func TestGangsOfPlannedPods(t *testing.T) {
	sg := newGroup("work", 2, 1, frozen("", "rack"))
	names := map[string]bool{}
	for _, record := range []*assignment.Record{{}, {Former: map[Key]assignment.Place{{Component: "work"}: {Attempt: 1}}}} {
		o := Observation{
			DGD:    &nvidiav1beta1.DynamoGraphDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "g"}},
			Groups: []*trellisv1alpha1.ScalingGroup{sg}, ClusterTopology: hall, Record: record,
		}
		for ordinal := range int32(2) {
			pod := newPod(sg, ordinal, 0)
			AsPlanned(pod, sg)
			o.Pods = append(o.Pods, pod)
		}
		c := NewCluster()
		c.SetNode(host("a0", "a", 4))
		r := NewRequest(o)
		result := placement.PlanGraph(c, r.Graph, placement.Options{})
		answer := r.Answer(&result)
		if len(answer.Placed) != 2 || len(r.Asked(&result)) != 2 {
			t.Fatalf("placed %v of %v, waiting %v", answer.Placed, r.Asked(&result), answer.Waiting)
		}
		releases := r.Releases(c, answer.Placed[0], "")
		if names[releases[0].Pin.Gang] = true; !Planned(releases[0].Pod) {
			t.Errorf("pod %s is not planned", releases[0].Pod.UID)
		}
	}
	if len(names) != 2 {
		t.Errorf("gangs at two attempts: %v", names)
	}
}

// A recorded pod is pinned to its host and the domain of its replica, at the recorded attempt. One without a host has no pin.
func TestRecordedPins(t *testing.T) {
	sg := newGroup("work", 1, 2, frozen("", "rack"))
	place := assignment.Place{Attempt: 3, Domain: topology.Path{"z", "a"}, Hosts: []string{"a0", ""}}
	pin, recorded := RecordedPin(sg, "gang", place, 0)
	if !recorded || pin.Node != "a0" || pin.Attempt != 3 || pin.Gang != "gang" || pin.Labels["r"] != "a" || pin.Graph != sg.Spec.Graph {
		t.Errorf("pin %+v", pin)
	}
	for index := int32(1); index < 3; index++ {
		if _, recorded := RecordedPin(sg, "gang", place, index); recorded {
			t.Errorf("pod %d has a pin", index)
		}
	}
	if Planned(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "made"}}) {
		t.Error("a pod that exists is planned")
	}
}
