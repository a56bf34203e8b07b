// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package tree_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/cli/tree"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/whatif"
)

const (
	gpus      = "nvidia.com/gpu"
	rackKey   = "example/rack"
	perHost   = 8
	probe     = "probe"
	neighbour = "neighbour"
)

// hosts that pods are kept off in one way or another, and hosts that only look so.
var conditions = map[string]func(*corev1.Node){
	"open":     func(*corev1.Node) {},
	"cordoned": func(n *corev1.Node) { n.Spec.Unschedulable = true },
	"broken":   func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown },
	"unjudged": func(n *corev1.Node) { n.Status.Conditions = nil },
	"tainted": func(n *corev1.Node) {
		n.Spec.Taints = []corev1.Taint{{Key: "repair", Value: "soon", Effect: corev1.TaintEffectNoSchedule}}
	},
	"avoided": func(n *corev1.Node) {
		n.Spec.Taints = []corev1.Taint{{Key: "repair", Value: "soon", Effect: corev1.TaintEffectPreferNoSchedule}}
	},
}

// drawWorld makes racks of hosts in any condition, with pods of others on them, and a neighbour whose pods are released and not bound.
func drawWorld(t *rapid.T) *whatif.World {
	w := &whatif.World{Topologies: []*grovev1alpha1.ClusterTopology{{ObjectMeta: metav1.ObjectMeta{Name: "hall"}}}}
	w.Topologies[0].Spec.Levels = []grovev1alpha1.TopologyLevel{{Domain: "rack", Key: rackKey}}
	for rack := range rapid.IntRange(1, 3).Draw(t, "racks") {
		for host := range rapid.IntRange(1, 3).Draw(t, "hosts") {
			n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
				Name: fmt.Sprintf("r%d-%d", rack, host), Labels: map[string]string{rackKey: fmt.Sprintf("r%d", rack)},
			}}
			n.Status.Allocatable = corev1.ResourceList{gpus: *resource.NewQuantity(perHost, resource.DecimalSI), corev1.ResourcePods: resource.MustParse("110")}
			n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
			conditions[rapid.SampledFrom([]string{"open", "open", "open", "cordoned", "broken", "unjudged", "tainted", "avoided"}).Draw(t, "condition")](n)
			w.Nodes = append(w.Nodes, n)
			if used := rapid.SampledFrom([]int{0, 0, 1, 4, 7, 8}).Draw(t, "used"); used > 0 {
				w.Pods = append(w.Pods, foreign(n.Name, used, rapid.SampledFrom([]corev1.PodPhase{corev1.PodRunning, corev1.PodRunning, corev1.PodFailed}).Draw(t, "phase")))
			}
		}
	}
	if size := rapid.IntRange(0, 2).Draw(t, "neighbour"); size > 0 {
		dgd := deployment(neighbour, size, rapid.IntRange(1, perHost).Draw(t, "neighbour's GPUs"), nil)
		exist(t, w, dgd, released(rapid.SampledFrom(w.Nodes).Draw(t, "rack").Labels[rackKey]))
	}
	return w
}

// foreign is a pod of no graph on a host.
func foreign(host string, amount int, phase corev1.PodPhase) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "on-" + host, UID: types.UID("on-" + host)}}
	p.Spec.NodeName, p.Status.Phase = host, phase
	p.Spec.Containers = []corev1.Container{{Resources: asks(amount)}}
	return p
}

func asks(amount int) corev1.ResourceRequirements {
	list := corev1.ResourceList{gpus: *resource.NewQuantity(int64(amount), resource.DecimalSI)}
	return corev1.ResourceRequirements{Requests: list, Limits: list}
}

// deployment has one replica of so many pods in one rack.
func deployment(name string, pods, amount int, tolerations []corev1.Toleration) *nvidiav1beta1.DynamoGraphDeployment {
	dgd := &nvidiav1beta1.DynamoGraphDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name, UID: types.UID(name), Generation: 1}}
	dgd.Spec.TopologyConstraint = &nvidiav1beta1.SpecTopologyConstraint{ClusterTopologyName: "hall"}
	c := nvidiav1beta1.ComponentSpec{
		Name: "Worker", Type: "worker", Replicas: ptr.To[int32](1), TopologyConstraint: &nvidiav1beta1.TopologyConstraint{PackDomain: "rack"},
		PodTemplate: &corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			Tolerations: tolerations,
			Containers: []corev1.Container{{
				Name: "main", Image: "app", Command: []string{"/bin/sh", "-c"}, Args: []string{"python3 -m dynamo.vllm --model m"}, Resources: asks(amount),
			}},
		}},
	}
	if pods > 1 {
		c.Multinode = &nvidiav1beta1.MultinodeSpec{NodeCount: int32(pods)}
	}
	dgd.Spec.Components = []nvidiav1beta1.ComponentSpec{c}
	return dgd
}

// exist adds a deployment with its scaling groups and pods, as the operator makes them; change is made to every pod.
func exist(t *rapid.T, w *whatif.World, dgd *nvidiav1beta1.DynamoGraphDeployment, change func(*corev1.Pod)) {
	resolved, err := render.Resolve(dgd, render.Inputs{Topology: w.Topologies[0], Provider: specs.Gates.Name})
	if err != nil {
		t.Fatal(err)
	}
	w.Graphs = append(w.Graphs, dgd)
	for _, sg := range resolved.ScalingGroups() {
		sg.UID = types.UID(sg.Name)
		w.Groups = append(w.Groups, sg)
		for index := range render.PodsPerReplica(sg) {
			pod := render.BuildPod(sg, 0, index)
			pod.UID = types.UID(pod.Name)
			pod.OwnerReferences = []metav1.OwnerReference{{Kind: "ScalingGroup", Name: sg.Name, UID: sg.UID, Controller: ptr.To(true)}}
			change(pod)
			w.Pods = append(w.Pods, pod)
		}
	}
}

func gated(*corev1.Pod) {}

// released opens the gate of a pod and pins it to a rack.
func released(rack string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.SchedulingGates, pod.Spec.NodeSelector = nil, map[string]string{rackKey: rack}
		pod.Annotations = map[string]string{render.AnnotationGang: "gang"}
	}
}

// TestAgreesWithPlan: a gang of equal pods is placed exactly where tree shows capacity for it: in a rack whose hosts have enough free for so many
// of its pods. tree shows the gang's deployment, so that its tolerations count.
func TestAgreesWithPlan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		pods, amount := rapid.IntRange(1, 4).Draw(t, "pods"), rapid.IntRange(1, perHost).Draw(t, "GPUs")
		var tolerations []corev1.Toleration
		if rapid.Bool().Draw(t, "tolerates") {
			tolerations = []corev1.Toleration{{Key: "repair", Operator: corev1.TolerationOpExists}}
		}
		dgd := deployment(probe, pods, amount, tolerations)
		exist(t, w, dgd, gated)
		if rapid.Bool().Draw(t, "its pods are to be made") {
			w.Pods = w.Pods[:len(w.Pods)-pods]
		}
		shown := *w
		shown.Graphs = []*nvidiav1beta1.DynamoGraphDeployment{dgd}
		fits := map[string]int64{}
		for _, rack := range tree.Whole(tree.Of(&shown)).Trees[0].Cluster.Children {
			for _, host := range rack.Children {
				fits[rack.Name] += host.Free / int64(amount)
			}
		}
		plan, err := whatif.NewPlanner(*w).Plan(dgd)
		if err != nil {
			t.Fatal(err)
		}
		holds := func(rack string) bool { return fits[rack] >= int64(pods) }
		anywhere := false
		for rack := range fits {
			anywhere = anywhere || holds(rack)
		}
		replica := plan.Replicas[0]
		placed := replica.Reason == nil
		if placed != anywhere || placed && !holds(strings.Join(replica.Domain, "/")) {
			t.Fatalf("tree has capacity for %v pods of %d GPUs; the plan for %d of them: %q, %+v", fits, amount, pods, replica.Domain, replica.Reason)
		}
	})
}
