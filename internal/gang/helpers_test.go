// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/topology"
	"github.com/trellis-k8s/trellis/test/testutil/gangtest"
)

var (
	hall     = gangtest.Topology
	frozen   = gangtest.Frozen
	newGroup = gangtest.Group
	newPod   = gangtest.Pod
)

// lines is a request in one line a component, for comparing.
func lines(r *Request) []string {
	out := []string{fmt.Sprintf("graph anchor=%q creating=%v placed %d of %d", r.Graph.Anchor.String(), r.Creating, r.Placed, r.Wanted)}
	for _, s := range r.Graph.Components {
		line := fmt.Sprintf("%s required=%d anchor=%q placed=%d", s.Name, s.Required, s.Anchor.String(), s.Placed)
		for _, w := range s.Waiting {
			line += fmt.Sprintf(" waits(%d pods=%d anchor=%q hint=%q)", w.Ordinal, len(w.Pods), w.Anchor.String(), w.Hint.String())
		}
		out = append(out, line)
	}
	for _, w := range r.Blocked {
		out = append(out, fmt.Sprintf("blocked %s-%d %s", w.Component, w.Ordinal, w.Code))
	}
	if len(r.incomplete) > 0 {
		out = append(out, fmt.Sprintf("%d incomplete", len(r.incomplete)))
	}
	return out
}

// host has so many GPUs and is in a rack of the zone z.
func host(name, rack string, gpus int) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"z": "z", "r": rack, corev1.LabelHostname: name}},
		Status: corev1.NodeStatus{
			Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
			Allocatable: corev1.ResourceList{"gpu": *resource.NewQuantity(int64(gpus), resource.DecimalSI), corev1.ResourcePods: resource.MustParse("10")},
		},
	}
}

// asking is a graph of one replica of so many pods, each of one GPU, in one rack.
func asking(pods int32) Observation {
	sg := newGroup("work", 1, pods, frozen("", "rack"))
	o := Observation{
		DGD:    &nvidiav1beta1.DynamoGraphDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "g"}},
		Groups: []*trellisv1alpha1.ScalingGroup{sg}, ClusterTopology: hall,
	}
	for i := range pods {
		pod := newPod(sg, 0, i)
		pod.Spec.Containers = []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"gpu": resource.MustParse("1")}}}}
		o.Pods = append(o.Pods, pod)
	}
	return o
}

// releasesOf plans a graph, as the scheduler does, and returns what is released of it.
func releasesOf(c *topology.Cluster, o Observation) (releases []Release) {
	r := NewRequest(o)
	planned := placement.PlanGraph(c, r.Graph, placement.Options{})
	for _, replica := range r.Answer(&planned).Placed {
		releases = append(releases, r.Releases(c, replica, r.BaseName(&planned))...)
	}
	return releases
}
