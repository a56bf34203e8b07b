// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/whatif"
	"github.com/trellis-k8s/trellis/test/testutil/hub"
)

// world makes scenes: hosts of 8 GPUs called ZONE-RACK-HOST ("a-1-0") and graphs whose pods are bound by name.
type world struct {
	*testing.T
	Scene
}

// scene is that of the world as it is now.
func (w *world) scene() *Scene {
	s := w.Scene
	s.Planner = whatif.NewPlanner(w.World)
	return &s
}

func newWorld(t *testing.T, zones, racks, hosts int) *world {
	w := &world{T: t}
	for z := range zones {
		for r := range racks {
			for h := range hosts {
				zone := string(rune('a' + z))
				w.addNode(fmt.Sprintf("%s-%d-%d", zone, r, h), map[string]string{
					"example/zone": "zone-" + zone, "example/rack": fmt.Sprintf("r%d", r),
				})
			}
		}
	}
	w.Topologies = []*grovev1alpha1.ClusterTopology{hall("zone", "rack", "host")}
	return w
}

func hall(levels ...string) *grovev1alpha1.ClusterTopology {
	t := &grovev1alpha1.ClusterTopology{}
	t.Name = "hall"
	for _, l := range levels {
		key := "example/" + l
		if l == "host" {
			key = corev1.LabelHostname
		}
		t.Spec.Levels = append(t.Spec.Levels, grovev1alpha1.TopologyLevel{Domain: l, Key: key})
	}
	return t
}

func (w *world) addNode(name string, labels map[string]string) *corev1.Node {
	n := &corev1.Node{}
	n.Name, n.Labels = name, labels
	n.Status.Allocatable = corev1.ResourceList{gpus: resource.MustParse("8"), corev1.ResourcePods: resource.MustParse("110")}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	w.Nodes = append(w.Nodes, n)
	return n
}

func (w *world) node(name string) *corev1.Node {
	for _, n := range w.Nodes {
		if n.Name == name {
			return n
		}
	}
	w.Fatalf("no node %s", name)
	return nil
}

// addGraph adds a deployment as the operator would have resolved it. bind tells where its pods are, as "POD NODE" lines; of the
// others none is made but those with the node "-", which wait, and "POD ~ ZONE RACK", which are released and not bound.
func (w *world) addGraph(manifest, bind string) *nvidiav1beta1.DynamoGraphDeployment {
	w.Helper()
	written := nvidiav1alpha1.DynamoGraphDeployment{}
	if err := yaml.UnmarshalStrict([]byte(manifest), &written); err != nil {
		w.Fatal(err)
	}
	dgd := hub.Of(&written)
	resolved, err := render.Resolve(dgd, render.Inputs{Topology: w.Topologies[0], Provider: specs.Gates.Name})
	if err != nil {
		w.Fatal(err)
	}
	pods := map[string]*corev1.Pod{}
	for _, sg := range resolved.ScalingGroups() {
		sg.UID = types.UID(sg.Name)
		w.Groups = append(w.Groups, sg)
		for replica := range sg.Spec.Replicas {
			for index := range render.PodsPerReplica(sg) {
				p := render.BuildPod(sg, replica, index)
				p.OwnerReferences = []metav1.OwnerReference{{Kind: "ScalingGroup", Name: sg.Name, UID: sg.UID, Controller: ptr.To(true)}}
				pods[p.Name] = p
			}
		}
	}
	for line := range strings.Lines(bind) {
		words := strings.Fields(line)
		p := pods[words[0]]
		if p == nil {
			w.Fatalf("no pod %s", words[0])
		}
		switch words[1] {
		case "-":
		case "~":
			p.Annotations = map[string]string{render.AnnotationGang: "gang"}
			p.Spec.SchedulingGates, p.Spec.NodeSelector = nil, map[string]string{"example/zone": words[2], "example/rack": words[3]}
		default:
			p.Spec.NodeName = words[1]
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		}
		w.Pods = append(w.Pods, p)
	}
	w.Graphs = append(w.Graphs, dgd)
	setCondition(dgd, nvidiav1beta1.ConditionReady, true, "all_resources_are_ready", "All resources are ready")
	return dgd
}

// addPod puts another owner's pod onto a node.
func (w *world) addPod(node string, gpus string) {
	p := &corev1.Pod{}
	p.Namespace, p.Name, p.Spec.NodeName = "other", "p-"+node, node
	p.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse(gpus)}}}}
	w.Pods = append(w.Pods, p)
}

func setCondition(dgd *nvidiav1beta1.DynamoGraphDeployment, kind string, is bool, reason, message string) {
	status := metav1.ConditionFalse
	if is {
		status = metav1.ConditionTrue
	}
	meta.SetStatusCondition(&dgd.Status.Conditions, metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message})
}

// packed has a worker of two replicas of four hosts, each in one rack, and a frontend anywhere.
const packed = `
apiVersion: nvidia.com/v1alpha1
kind: DynamoGraphDeployment
metadata: {name: chat, namespace: team-a}
spec:
  topologyConstraint: {topologyProfile: hall}
  services:
    Frontend:
      componentType: frontend
      replicas: 2
      extraPodSpec: {mainContainer: {image: app}}
    VllmWorker:
      componentType: worker
      replicas: 2
      multinode: {nodeCount: 4}
      topologyConstraint: {packDomain: rack}
      resources: {limits: {gpu: "8"}}
      extraPodSpec: {mainContainer: {image: app, command: [/bin/sh, -c], args: [python3 -m dynamo.vllm --model big]}}
`

// small keeps all pods in one zone.
const small = `
apiVersion: nvidia.com/v1alpha1
kind: DynamoGraphDeployment
metadata: {name: small, namespace: team-a}
spec:
  topologyConstraint: {topologyProfile: hall, packDomain: zone, preferredPackDomain: rack}
  services:
    Decode:
      componentType: worker
      replicas: 3
      resources: {limits: {gpu: "2"}}
      extraPodSpec: {mainContainer: {image: app, command: [/bin/sh, -c], args: [python3 -m dynamo.vllm --model small]}}
`

// plain has no constraint.
const plain = `
apiVersion: nvidia.com/v1alpha1
kind: DynamoGraphDeployment
metadata: {name: plain, namespace: team-b}
spec:
  services:
    Worker:
      componentType: worker
      replicas: 1
      resources: {limits: {gpu: "1"}}
      extraPodSpec: {mainContainer: {image: app}}
`
