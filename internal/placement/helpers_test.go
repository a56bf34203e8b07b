// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/trellis-k8s/trellis/internal/topology"
)

const gpu = "nvidia.com/gpu"

// levels makes levels of the same domain and key: levels("zone", "rack").
func levels(names ...string) topology.Levels {
	ls := make(topology.Levels, 0, len(names))
	for _, n := range names {
		key := "topology.example/" + n
		if n == "host" {
			key = corev1.LabelHostname
		}
		ls = append(ls, topology.Level{Domain: n, Key: key})
	}
	return ls
}

// nodeOf makes a ready node from "name path gpus", e.g. "n0 zone-a/rack-1 8"; further words: cordoned, notready, taint=KEY, label=K=V,
// pods=N, cpu=N.
func nodeOf(ls topology.Levels, text string) *corev1.Node {
	words := strings.Fields(text)
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: words[0], Labels: map[string]string{}}}
	for i, value := range strings.Split(words[1], "/") {
		if value != "" && value != "-" {
			n.Labels[ls[i].Key] = value
		}
	}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	n.Status.Allocatable = corev1.ResourceList{
		gpu:                   resource.MustParse(words[2]),
		corev1.ResourceCPU:    resource.MustParse("1000"),
		corev1.ResourceMemory: resource.MustParse("1000Gi"),
		corev1.ResourcePods:   resource.MustParse("110"),
	}
	for _, w := range words[3:] {
		key, value, _ := strings.Cut(w, "=")
		switch key {
		case "cordoned":
			n.Spec.Unschedulable = true
		case "notready":
			n.Status.Conditions[0].Status = corev1.ConditionFalse
		case "taint":
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: value, Value: "x", Effect: corev1.TaintEffectNoSchedule})
		case "label":
			k, v, _ := strings.Cut(value, "=")
			n.Labels[k] = v
		default:
			n.Status.Allocatable[corev1.ResourceName(key)] = resource.MustParse(value)
		}
	}
	return n
}

// clusterOf makes a cluster from node texts; a fourth word "used=N" binds a pod with N GPUs.
func clusterOf(ls topology.Levels, nodes ...string) *topology.Cluster {
	c := topology.NewCluster()
	for _, text := range nodes {
		var keep []string
		used := ""
		for _, w := range strings.Fields(text) {
			if v, ok := strings.CutPrefix(w, "used="); ok {
				used = v
			} else {
				keep = append(keep, w)
			}
		}
		n := nodeOf(ls, strings.Join(keep, " "))
		c.SetNode(n)
		if used != "" {
			p := podOf(map[string]string{gpu: used})
			p.Name, p.Spec.NodeName = "busy-"+n.Name, n.Name
			c.SetPod(p)
		}
	}
	return c
}

func podOf(requests map[string]string) *corev1.Pod {
	list := corev1.ResourceList{}
	for name, value := range requests {
		list[corev1.ResourceName(name)] = resource.MustParse(value)
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "test"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: list}}}},
	}
}

// gpus is the shape of a pod with n GPUs.
func gpus(n int) *topology.Shape {
	return topology.ShapeOf(podOf(map[string]string{gpu: strconv.Itoa(n)}))
}

// cpus is the shape of a pod with n cpus.
func cpus(n int) *topology.Shape {
	return topology.ShapeOf(podOf(map[string]string{"cpu": strconv.Itoa(n)}))
}

// pods makes n pods of a shape, named name-0 and so on.
func pods(name string, n int, s *topology.Shape) []Pod {
	list := make([]Pod, 0, n)
	for i := range n {
		id := fmt.Sprintf("%s-%d", name, i)
		list = append(list, Pod{ID: id, Name: id, Shape: s})
	}
	return list
}

const none = topology.NoLevel

// componentOf makes a component with waiting replicas 0..replicas-1 of n pods each.
func componentOf(name string, required, preferred, replicas, n int, s *topology.Shape) Component {
	v := Component{Name: name, Multinode: n > 1, Required: required, Preferred: preferred}
	for r := range replicas {
		v.Waiting = append(v.Waiting, Replica{Ordinal: r, Pods: pods(fmt.Sprintf("%s-%d", name, r), n, s)})
	}
	return v
}

// summary lists per replica "service-ordinal domain: nodes", or "service-ordinal code".
func summary(r Result) []string {
	var lines []string
	for _, one := range r.Replicas {
		line := fmt.Sprintf("%s-%d ", one.Component, one.Ordinal)
		if one.Refusal != nil {
			lines = append(lines, line+one.Refusal.Code)
			continue
		}
		line += one.Domain.String() + ":"
		for _, p := range one.Pods {
			line += " " + p.Node
		}
		lines = append(lines, line)
	}
	return lines
}

// nodesOf lists the nodes of all pods of a group result, sorted.
func nodesOf(r *GroupResult) []string {
	var list []string
	for _, p := range r.Pods {
		list = append(list, p.Node)
	}
	for _, g := range r.Groups {
		list = append(list, nodesOf(g)...)
	}
	slices.Sort(list)
	return list
}

// onePerHost is the shape of a pod with one GPU that keeps its own kind off its host.
func onePerHost() *topology.Shape {
	p := podOf(map[string]string{gpu: "1"})
	p.Labels = map[string]string{"app": "x"}
	p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
			TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: p.Labels}}}}}
	return topology.ShapeOf(p)
}
