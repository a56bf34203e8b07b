// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package whatif

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/render"
)

// occupy binds pods of another tenant with so many GPUs each to a node.
func (w *World) occupy(node string, gpus ...int) {
	for i, n := range gpus {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: fmt.Sprintf("%s-%d", node, i), UID: types.UID(fmt.Sprintf("other-%s-%d", node, i))}}
		pod.Spec.NodeName = node
		pod.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse(fmt.Sprint(n))}}}}
		w.Pods = append(w.Pods, pod)
	}
}

// fill binds the pods of a deployment to these nodes, in order; the rest of them waits.
func (w *World) fill(t testing.TB, dgd *nvidiav1beta1.DynamoGraphDeployment, nodes []*corev1.Node) {
	t.Helper()
	w.exist(t, dgd, func(pod *corev1.Pod) {
		if len(nodes) == 0 {
			return
		}
		n := nodes[0]
		nodes = nodes[1:]
		released(n.Labels["zone"], n.Labels["rack"], true)(pod)
		pod.Spec.NodeName = n.Name
	})
}

// A graph fills all hosts of the zone that it is anchored in, and two of them are cordoned: to open these gives it nothing, for its own pods are on
// them. Nothing is easy to free there, and no host of its own is named.
func TestNoAdviceToFreeTheGraphItself(t *testing.T) {
	w := newWorld(12) // 24 hosts a zone
	dgd := deployment("g", 13)
	w.fill(t, dgd, w.Nodes[:24])
	for i, n := range w.Nodes {
		if n.Spec.Unschedulable = i == 0 || i == 1; i >= 24 {
			w.occupy(n.Name, 8)
		}
	}
	p := NewPlanner(w)
	g, err := p.Plan(dgd)
	if err != nil {
		t.Fatal(err)
	}
	last := g.Replicas[len(g.Replicas)-1]
	if last.Reason == nil || last.Reason.Refusal == nil {
		t.Fatalf("the last replica is placed, or was not planned: %+v", last)
	}
	if domain, hosts, _ := p.Obstacles(g, last.Reason.Refusal); len(hosts) > 0 {
		t.Errorf("easiest to free is %s, by %+v", domain, hosts)
	}
}

// A domain that is too small for the gang, and one in which only the graph's own pods are, are never advised, however little they would cost.
func TestAdviceIsForADomainThatHoldsTheGang(t *testing.T) {
	w := newWorld(3)
	dgd := deployment("g", 1)
	dgd.Component("Worker").Multinode.NodeCount = 3
	for _, n := range w.Nodes {
		switch rack := n.Labels["zone"] + n.Labels["rack"]; {
		case rack == "ar0" && n.Name == "a-r0-2":
			n.Status.Allocatable["nvidia.com/gpu"] = resource.MustParse("4") // too small for ever
		case rack == "ar0":
			n.Spec.Unschedulable = true
		case rack == "ar1":
			w.occupy(n.Name, 1, 1)
		default:
			w.occupy(n.Name, 1, 1, 1)
		}
	}
	p := NewPlanner(w)
	g, err := p.Plan(dgd)
	if err != nil {
		t.Fatal(err)
	}
	domain, hosts, _ := p.Obstacles(g, g.Replicas[0].Reason.Refusal)
	if domain.String() != "a/r1" || len(hosts) != 3 {
		t.Errorf("advised %s, %d hosts, want the three of a/r1", domain, len(hosts))
	}
}

// TestAdviceHelps: on any cluster, what is advised for a replica, done, places it; and none of the graph's own pods has to go.
func TestAdviceHelps(t *testing.T) {
	advised, refused := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		w, dgd := drawCrowded(t, rt)
		p := NewPlanner(w)
		p.Begin()
		g, err := p.Plan(dgd)
		if err != nil {
			rt.Fatal(err)
		}
		for _, r := range g.Replicas {
			if r.Reason == nil || r.Reason.Refusal == nil {
				continue
			}
			refused++
			domain, hosts, _ := p.Obstacles(g, r.Reason.Refusal)
			if len(hosts) == 0 {
				continue
			}
			advised++
			after := w.done(rt, dgd, hosts)
			again, err := NewPlanner(after).Plan(dgd)
			if err != nil {
				rt.Fatal(err)
			}
			i := slices.IndexFunc(again.Replicas, func(o Replica) bool { return o.Component == r.Component && o.Ordinal == r.Ordinal })
			if i < 0 || again.Replicas[i].Reason != nil {
				rt.Fatalf("%s-%d waits still after %+v of %s: %s\nbefore: %s", r.Component, r.Ordinal, hosts, domain, again.Replicas[i].Reason.Message, r.Reason.Message)
			}
		}
		p.Rollback()
	})
	if advised*4 < refused {
		t.Errorf("only %d of %d refused replicas were advised", advised, refused)
	}
}

// drawCrowded draws a cluster with tenants, broken hosts and a part of the graph that is planned.
func drawCrowded(t *testing.T, rt *rapid.T) (World, *nvidiav1beta1.DynamoGraphDeployment) {
	w := newWorld(rapid.IntRange(1, 4).Draw(rt, "hosts"))
	dgd := deployment("g", int32(rapid.IntRange(1, 4).Draw(rt, "replicas")))
	worker := dgd.Component("Worker")
	worker.Multinode.NodeCount = int32(rapid.IntRange(2, 3).Draw(rt, "nodes"))
	worker.PodTemplate.Spec.Containers[0].Resources.Limits["nvidia.com/gpu"] = resource.MustParse(fmt.Sprint(rapid.SampledFrom([]int{2, 4, 8}).Draw(rt, "gpus")))
	if rapid.Bool().Draw(rt, "no graph domain") {
		dgd.Spec.TopologyConstraint.PackDomain = ""
	}
	if rapid.Bool().Draw(rt, "cpu too") {
		worker.PodTemplate.Spec.Containers[0].Resources.Limits["cpu"] = resource.MustParse("32")
	}
	if rapid.Bool().Draw(rt, "a frontend") {
		front := worker.DeepCopy()
		front.Name, front.Multinode, front.Replicas, front.TopologyConstraint = "Frontend", nil, ptr.To[int32](1), nil
		front.PodTemplate.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}
		dgd.Spec.Components = append(dgd.Spec.Components, *front)
	}
	zones, taken := []string{"a", "b"}, map[string]bool{}
	if n := rapid.IntRange(0, 2).Draw(rt, "replicas of a neighbour"); n > 0 && len(w.Nodes) >= 8 {
		zones = zones[:1]
		w.exist(t, deployment("n", int32(n)), func(pod *corev1.Pod) {
			released("b", "r"+pod.Labels[render.LabelReplica], true)(pod)
			taken[pod.Spec.NodeName] = true
		})
	}
	if rapid.Bool().Draw(rt, "in part there") {
		place := rapid.SampledFrom(zones).Draw(rt, "zone")
		first := true
		w.exist(t, dgd, func(pod *corev1.Pod) {
			node := fmt.Sprintf("%s-r0-%s", place, pod.Labels[render.LabelPodIndex])
			there := slices.ContainsFunc(w.Nodes, func(n *corev1.Node) bool { return n.Name == node })
			if first = first && there && strings.Contains(pod.Name, "worker-0-"); first {
				released(place, "r0", true)(pod)
			}
		})
	}
	for _, n := range w.Nodes {
		if taken[n.Name] {
			continue
		}
		for i := range rapid.IntRange(0, 3).Draw(rt, n.Name+" tenants") {
			w.occupy(n.Name, rapid.IntRange(1, 4).Draw(rt, fmt.Sprint(n.Name, " gpus ", i)))
			w.Pods[len(w.Pods)-1].Name, w.Pods[len(w.Pods)-1].UID = fmt.Sprint(n.Name, "-", i), types.UID(fmt.Sprint(n.Name, "-", i))
		}
		switch rapid.IntRange(0, 8).Draw(rt, n.Name+" state") {
		case 0:
			n.Spec.Unschedulable = true
		case 1:
			n.Spec.Taints = []corev1.Taint{{Key: "repair", Value: "soon", Effect: corev1.TaintEffectNoSchedule}}
		case 2:
			n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}
			n.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoSchedule}}
		case 8:
			n.Spec.Taints = []corev1.Taint{{Key: "team", Value: "training", Effect: corev1.TaintEffectNoSchedule}}
		case 3:
			n.Status.Allocatable["nvidia.com/gpu"] = resource.MustParse("4")
		}
	}
	return w, dgd
}

// done is the world after the advice was followed.
func (w *World) done(t *rapid.T, dgd *nvidiav1beta1.DynamoGraphDeployment, hosts []Obstacle) World {
	after := *w
	after.Nodes, after.Pods = nil, slices.Clone(w.Pods)
	for _, n := range w.Nodes {
		n = n.DeepCopy()
		for _, o := range hosts {
			if o.Node == n.Name {
				followed(n, o)
			}
		}
		after.Nodes = append(after.Nodes, n)
	}
	gone := func(is func(*corev1.Pod) bool) int {
		before := len(after.Pods)
		after.Pods = slices.DeleteFunc(after.Pods, is)
		return before - len(after.Pods)
	}
	for _, o := range hosts {
		for _, one := range o.Pods {
			if one.Namespace == dgd.Namespace && strings.HasPrefix(one.Name, dgd.Name+"-") {
				t.Fatalf("%s of %s would have to go, a pod of the graph itself", one.Name, o.Node)
			}
			switch one.Way.Kind {
			case WayPod:
				if gone(func(pod *corev1.Pod) bool { return nameOf(pod) == one.NamespacedName }) == 0 {
					t.Fatalf("there is no pod %s on %s: %+v", one.Name, o.Node, hosts)
				}
			case WayScaleIn: // of equal replicas the operator removes those with the highest ordinals
				gone(func(pod *corev1.Pod) bool {
					ordinal, _, ok := render.ReplicaOf(pod)
					return ok && pod.Labels[render.LabelGraph] == one.Way.Graph.Name && int(ordinal) >= one.Way.To
				})
			case WayDelete:
				gone(func(pod *corev1.Pod) bool { return pod.Labels[render.LabelGraph] == one.Way.Graph.Name })
			default:
				t.Fatalf("pod %s leaves by %+v", one.Name, one.Way)
			}
		}
	}
	return after
}

// What no domain of today's nodes holds is known before anything is made, whatever runs there and however many replicas are asked for; what only has no
// capacity now is not named.
func TestNeverFits(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*World, *nvidiav1beta1.DynamoGraphDeployment)
		want   []string
	}{
		"it fits when all is free": {func(w *World, dgd *nvidiav1beta1.DynamoGraphDeployment) {
			for _, n := range w.Nodes {
				n.Spec.Unschedulable = true
				w.occupy(n.Name, 8)
			}
			*dgd.Component("Worker").Replicas = 60_000
		}, nil},
		"more hosts than a rack has": {func(_ *World, dgd *nvidiav1beta1.DynamoGraphDeployment) {
			dgd.Component("Worker").Multinode.NodeCount = 3
		},
			[]string{"Worker will wait: no rack has 3 hosts: the largest has 2 (a/r0); larger domains or hosts have to be added first"}},
		"more GPUs than a host has": {func(_ *World, dgd *nvidiav1beta1.DynamoGraphDeployment) {
			dgd.Component("Worker").PodTemplate.Spec.Containers[0].Resources.Limits["nvidia.com/gpu"] = resource.MustParse("16")
		}, []string{"Worker will wait: no host has 16 nvidia.com/gpu: the largest has 8; larger domains or hosts have to be added first"}},
		"a pod without a constraint": {func(_ *World, dgd *nvidiav1beta1.DynamoGraphDeployment) {
			dgd.Spec.TopologyConstraint, dgd.Component("Worker").TopologyConstraint, dgd.Component("Worker").Multinode = nil, nil, nil
			dgd.Component("Worker").PodTemplate.Spec.Containers[0].Resources.Limits["nvidia.com/gpu"] = resource.MustParse("16")
		}, []string{"Worker will wait: no host has 16 nvidia.com/gpu: the largest has 8; larger domains or hosts have to be added first"}},
		"more base gang than a zone has": {func(_ *World, dgd *nvidiav1beta1.DynamoGraphDeployment) {
			*dgd.Component("Worker").Replicas, dgd.Component("Worker").MinAvailable = 9, ptr.To[int32](5)
		}, []string{"Worker will wait: no zone has 10 hosts: the largest has 4 (a); larger domains or hosts have to be added first"}},
		"what a DeviceClass serves need not be offered": {func(w *World, dgd *nvidiav1beta1.DynamoGraphDeployment) {
			w.Devices = []*resourcev1.DeviceClass{{Spec: resourcev1.DeviceClassSpec{ExtendedResourceName: ptr.To("example.com/device")}}}
			dgd.Component("Worker").PodTemplate.Spec.Containers[0].Resources.Limits["example.com/device"] = resource.MustParse("4")
		}, nil},
		"there are no nodes":  {func(w *World, _ *nvidiav1beta1.DynamoGraphDeployment) { w.Nodes = nil }, nil},
		"it is not valid":     {func(_ *World, dgd *nvidiav1beta1.DynamoGraphDeployment) { *dgd.Component("Worker").Replicas = -2 }, nil},
		"the topology is not": {func(w *World, _ *nvidiav1beta1.DynamoGraphDeployment) { w.Topologies = nil }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w, dgd := newWorld(2), deployment("g", 1)
			tc.change(&w, dgd)
			p := NewPlanner(World{Nodes: w.Nodes, Topologies: w.Topologies, Devices: w.Devices, Ignored: w.Ignored})
			for range 2 { // a question leaves nothing for the next one
				if diff := cmp.Diff(tc.want, p.NeverFits(dgd)); diff != "" {
					t.Errorf("-want +got:\n%s", diff)
				}
			}
		})
	}
}

// followed does what an obstacle asks for about its node.
func followed(n *corev1.Node, o Obstacle) {
	if o.Cordoned {
		n.Spec.Unschedulable = false
	}
	if o.Broken {
		for i := range n.Status.Conditions {
			n.Status.Conditions[i].Status = corev1.ConditionTrue
		}
		n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return bad(&t) })
	}
	n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return slices.Contains(o.Taints, t.ToString()) })
}
