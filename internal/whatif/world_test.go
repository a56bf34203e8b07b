// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package whatif

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/test/testutil/hub"
)

// newWorld has two zones of two racks of hosts of 8 GPUs, ZONE-RACK-HOST.
func newWorld(hosts int) World {
	w := World{Topologies: []*grovev1alpha1.ClusterTopology{{
		ObjectMeta: metav1.ObjectMeta{Name: "hall"},
		Spec:       grovev1alpha1.ClusterTopologySpec{Levels: []grovev1alpha1.TopologyLevel{{Domain: "zone", Key: "zone"}, {Domain: "rack", Key: "rack"}}},
	}}}
	for _, zone := range []string{"a", "b"} {
		for _, rack := range []string{"r0", "r1"} {
			for h := range hosts {
				n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%s-%d", zone, rack, h), Labels: map[string]string{"zone": zone, "rack": rack}}}
				n.Status.Allocatable = corev1.ResourceList{"cpu": resource.MustParse("64"), "pods": resource.MustParse("110"), "nvidia.com/gpu": resource.MustParse("8")}
				w.Nodes = append(w.Nodes, n)
			}
		}
	}
	return w
}

// deployment has a worker of replicas gangs of two hosts, each in one rack, all in one zone.
func deployment(name string, replicas int32) *nvidiav1beta1.DynamoGraphDeployment {
	return &nvidiav1beta1.DynamoGraphDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name},
		Spec: nvidiav1beta1.DynamoGraphDeploymentSpec{
			TopologyConstraint: &nvidiav1beta1.SpecTopologyConstraint{ClusterTopologyName: "hall", PackDomain: "zone"},
			Components: []nvidiav1beta1.ComponentSpec{{Name: "Worker",
				Replicas: &replicas, Multinode: &nvidiav1beta1.MultinodeSpec{NodeCount: 2},
				TopologyConstraint: &nvidiav1beta1.TopologyConstraint{PackDomain: "rack"},
				PodTemplate: hub.Main(&corev1.Container{Image: "app", Command: []string{"sleep"}, Resources: corev1.ResourceRequirements{
					Limits: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("8")},
				}}),
			}},
		},
	}
}

// exist adds what the operator has made of a deployment: groups, and pods in the state that set gives them.
func (w *World) exist(t testing.TB, dgd *nvidiav1beta1.DynamoGraphDeployment, set func(*corev1.Pod)) {
	t.Helper()
	resolved, err := render.Resolve(dgd, render.Inputs{Topology: w.Topologies[0], Provider: specs.Gates.Name})
	if err != nil {
		t.Fatal(err)
	}
	w.Graphs = append(w.Graphs, dgd)
	for _, sg := range resolved.ScalingGroups() {
		sg.UID = types.UID(sg.Name)
		w.Groups = append(w.Groups, sg)
		for ordinal := range sg.Spec.Replicas {
			for index := range render.PodsPerReplica(sg) {
				pod := render.BuildPod(sg, ordinal, index)
				pod.UID = types.UID(pod.Name)
				own(pod, sg)
				set(pod)
				w.Pods = append(w.Pods, pod)
			}
		}
	}
}

func gated(*corev1.Pod) {}

const foreignGate = "example.com/quota"

// unadmitted is gated by another controller, too.
func unadmitted(pod *corev1.Pod) {
	pod.Spec.SchedulingGates = append(pod.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: foreignGate})
}

// withGate has the deployment's own pods carry the gate of another controller.
func withGate(dgd *nvidiav1beta1.DynamoGraphDeployment) *nvidiav1beta1.DynamoGraphDeployment {
	dgd.Component("Worker").PodTemplate.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: foreignGate}}
	return dgd
}

// released is released and pinned to a rack; with a node it is bound there.
func released(zone, rack string, bound bool) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.SchedulingGates = nil
		pod.Spec.NodeSelector = map[string]string{"zone": zone, "rack": rack}
		pod.Annotations = map[string]string{render.AnnotationGang: "gang"}
		if bound {
			pod.Spec.NodeName = fmt.Sprintf("%s-%s-%s", zone, rack, pod.Labels[render.LabelPodIndex])
		}
	}
}

// scenario is an answer in one line a replica.
func scenario(t *testing.T, p *Planner, dgd *nvidiav1beta1.DynamoGraphDeployment) string {
	t.Helper()
	if errs := p.Check(dgd); len(errs) > 0 {
		return "refused: " + errs.ToAggregate().Error()
	}
	g, err := p.Plan(dgd)
	if err != nil {
		return "error: " + err.Error()
	}
	var lines []string
	for _, r := range g.Replicas {
		line := fmt.Sprintf("%s-%d in %s", r.Component, r.Ordinal, r.Domain)
		switch {
		case r.Reason != nil:
			line = fmt.Sprintf("%s-%d %s", r.Component, r.Ordinal, r.Reason.Code)
		case r.Running:
			line += " already"
		case r.Preempts != nil:
			line += fmt.Sprintf(" preempts %d", r.Preempts.Pods)
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, ", ")
}
