// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/cli/files"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/internal/render"
)

var noon = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) metav1.Time { return metav1.NewTime(noon.Add(-d)) }

// world makes snapshots from a manifest: its objects, the scaling groups that the operator would have made, and pods described in a line each.
type world struct {
	*testing.T
	*Subject
}

func newWorld(t *testing.T, manifests ...string) *world {
	t.Helper()
	w := &world{t, &Subject{}}
	w.Now = noon
	objects, _, err := files.Read([]string{"-"}, strings.NewReader(strings.Join(manifests, "\n---\n")))
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range objects {
		switch o := object.Object.(type) {
		case *corev1.Node:
			w.Nodes = append(w.Nodes, o)
		case *corev1.Pod:
			w.Pods = append(w.Pods, o)
		case *grovev1alpha1.ClusterTopology:
			w.Topologies = append(w.Topologies, o)
		case *nvidiav1beta1.DynamoGraphDeployment:
			o.UID, o.Generation, o.CreationTimestamp = "graph", 1, ago(time.Hour)
			o.Status.ObservedGeneration = 1
			w.DGD, w.Graphs = o, append(w.Graphs, o)
		}
	}
	return w
}

// resolve makes the scaling groups, and the pods: "POD node NODE", "POD released", "POD gated", "POD unadmitted", "POD leaving NODE", "POD stuck NODE", which
// has to end and does not, "POD crashing NODE".
func (w *world) resolve(pods string) *world {
	w.Helper()
	in := render.Inputs{Provider: specs.Gates.Name}
	if len(w.Topologies) > 0 {
		in.Topology = w.Topologies[0]
	}
	resolved, err := render.Resolve(w.DGD, in)
	if err != nil {
		w.Fatal(err)
	}
	made := map[string]*corev1.Pod{}
	for _, sg := range resolved.ScalingGroups() {
		sg.UID = types.UID(sg.Name)
		w.Groups = append(w.Groups, sg)
		for ordinal := range sg.Spec.Replicas {
			for index := range render.PodsPerReplica(sg) {
				pod := render.BuildPod(sg, ordinal, index)
				pod.UID, pod.CreationTimestamp = types.UID(pod.Name), ago(12*time.Minute)
				pod.OwnerReferences = []metav1.OwnerReference{{Kind: "ScalingGroup", Name: sg.Name, UID: sg.UID, Controller: ptr.To(true)}}
				made[pod.Name] = pod
			}
		}
	}
	for line := range strings.Lines(pods) {
		words := append(strings.Fields(line), "")
		if len(words) < 3 {
			continue
		}
		pod := made[words[0]]
		if pod == nil {
			w.Fatalf("no pod %s", words[0])
		}
		w.setState(pod, words[1], words[2])
		w.Pods = append(w.Pods, pod)
	}
	return w
}

func (w *world) setState(pod *corev1.Pod, state, node string) {
	switch state {
	case "gated":
		return
	case "unadmitted":
		pod.Spec.SchedulingGates = append(pod.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: "example.com/quota"})
		return
	}
	pod.Spec.SchedulingGates = nil
	pod.Annotations = map[string]string{render.AnnotationGang: "gang"}
	pod.Spec.NodeSelector = map[string]string{"zone": "a", "rack": "r0"}
	for _, n := range w.Nodes {
		if n.Name == node {
			pod.Spec.NodeName, pod.Spec.NodeSelector = node, map[string]string{"zone": n.Labels["zone"], "rack": n.Labels["rack"]}
		}
	}
	switch state {
	case "node":
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	case "crashing":
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: ago(3 * time.Minute)}}
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: "main", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
		}}
	case "released":
		pod.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: "0/8 nodes are available", LastTransitionTime: ago(20 * time.Second),
		}}
	case "leaving":
		pod.DeletionTimestamp = ptr.To(ago(20 * time.Second))
	case "stuck":
		pod.DeletionTimestamp = ptr.To(ago(5 * time.Minute))
	}
}

func (w *world) condition(kind string, is bool, reason, message string) *world {
	status := metav1.ConditionFalse
	if is {
		status = metav1.ConditionTrue
	}
	meta.SetStatusCondition(&w.DGD.Status.Conditions, metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message, LastTransitionTime: ago(11 * time.Minute)})
	return w
}

// groupCondition has a scaling group report that changes of its pods are refused.
func (w *world) groupCondition(name, message string) {
	w.Helper()
	for _, sg := range w.Groups {
		if sg.Name == name {
			meta.SetStatusCondition(&sg.Status.Conditions, metav1.Condition{
				Type: trellisv1alpha1.ConditionPodsInSync, Status: metav1.ConditionFalse, Reason: trellisv1alpha1.ReasonChangeRefused, Message: message,
				LastTransitionTime: ago(11 * time.Minute),
			})
		}
	}
}

func (w *world) occupy(name, node string, gpus string) *world {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: name, UID: types.UID(name)}}
	pod.Spec.NodeName = node
	pod.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse(gpus)}}}}
	w.Pods = append(w.Pods, pod)
	return w
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

func (w *world) event(age time.Duration, kind, name, reason, message string) *world {
	w.Events = append(w.Events, corev1.Event{
		InvolvedObject: corev1.ObjectReference{Kind: kind, Name: name}, Type: corev1.EventTypeWarning, Reason: reason, Message: message, LastTimestamp: ago(age),
	})
	return w
}

const topologyManifest = `
apiVersion: grove.io/v1alpha1
kind: ClusterTopology
metadata: {name: hall}
spec: {levels: [{domain: zone, key: zone}, {domain: rack, key: rack}]}`

// chat has two workers of two hosts, each in one rack, and a frontend, all in one zone.
const chat = `
apiVersion: nvidia.com/v1alpha1
kind: DynamoGraphDeployment
metadata: {name: chat, namespace: team-a}
spec:
  topologyConstraint: {topologyProfile: hall, packDomain: zone}
  services:
    Frontend:
      componentType: frontend
      extraPodSpec: {mainContainer: {image: app}}
    Worker:
      componentType: worker
      replicas: 2
      multinode: {nodeCount: 2}
      topologyConstraint: {packDomain: rack}
      resources: {limits: {gpu: "8"}}
      extraPodSpec: {mainContainer: {image: app, command: [/bin/sh, -c], args: [python3 -m dynamo.vllm --model m]}}`

// nodes makes hosts of 8 GPUs called ZONE-RACK-HOST.
func nodes(t *testing.T, zones, racks, hosts int) string {
	t.Helper()
	var docs []string
	for z := range zones {
		for r := range racks {
			for h := range hosts {
				zone, rack := string(rune('a'+z)), string(rune('0'+r))
				n := corev1.Node{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}}
				n.Name = zone + "-" + rack + "-" + string(rune('0'+h))
				n.Labels = map[string]string{"zone": zone, "rack": "r" + rack}
				n.Status.Capacity = corev1.ResourceList{"cpu": resource.MustParse("64"), "pods": resource.MustParse("110"), "nvidia.com/gpu": resource.MustParse("8")}
				data, err := yaml.Marshal(n)
				if err != nil {
					t.Fatal(err)
				}
				docs = append(docs, string(data))
			}
		}
	}
	return strings.Join(docs, "\n---\n")
}
