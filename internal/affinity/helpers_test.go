// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package affinity_test

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/topology"
)

const (
	gpu  = "nvidia.com/gpu"
	zone = "topology.kubernetes.io/zone"
	rack = "example.com/rack"
)

var levels = topology.Levels{{Domain: "zone", Key: zone}, {Domain: "rack", Key: rack}}

// nodes are two zones of two racks of two hosts with two GPUs: a1-1 is the first host of rack a1 in zone a.
func nodes() (list []*corev1.Node) {
	for _, z := range []string{"a", "b"} {
		for r := 1; r <= 2; r++ {
			for h := 1; h <= 2; h++ {
				name := fmt.Sprintf("%s%d-%d", z, r, h)
				list = append(list, &corev1.Node{
					ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{zone: z, rack: fmt.Sprintf("%s%d", z, r), corev1.LabelHostname: name}},
					Status: corev1.NodeStatus{
						Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
						Allocatable: corev1.ResourceList{gpu: resource.MustParse("2"), corev1.ResourcePods: resource.MustParse("10")},
					},
				})
			}
		}
	}
	return list
}

type option func(*corev1.Pod)

// pod makes a pod of one GPU with a label app.
func pod(name, app string, options ...option) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: map[string]string{"app": app}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{gpu: resource.MustParse("1")}}}}},
	}
	for _, o := range options {
		o(p)
	}
	return p
}

func on(node string) option { return func(p *corev1.Pod) { p.Spec.NodeName = node } }

func in(namespace string) option { return func(p *corev1.Pod) { p.Namespace = namespace } }

func term(key, app string, namespaces *metav1.LabelSelector) corev1.PodAffinityTerm {
	return corev1.PodAffinityTerm{
		TopologyKey: key, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}, NamespaceSelector: namespaces,
	}
}

func near(key, app string) option {
	return func(p *corev1.Pod) {
		affinityOf(p).PodAffinity = &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term(key, app, nil)}}
	}
}

func away(key, app string) option { return awayIn(key, app, nil) }

func awayIn(key, app string, namespaces *metav1.LabelSelector) option {
	return func(p *corev1.Pod) {
		affinityOf(p).PodAntiAffinity = &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term(key, app, namespaces)}}
	}
}

func affinityOf(p *corev1.Pod) *corev1.Affinity {
	if p.Spec.Affinity == nil {
		p.Spec.Affinity = &corev1.Affinity{}
	}
	return p.Spec.Affinity
}

// spread is a constraint that keeps pods off nodes; minDomains 0: none.
func spread(key, app string, maxSkew, minDomains int32, change ...func(*corev1.TopologySpreadConstraint)) option {
	return func(p *corev1.Pod) {
		c := corev1.TopologySpreadConstraint{
			MaxSkew: maxSkew, TopologyKey: key, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}},
		}
		if minDomains > 0 {
			c.MinDomains = ptr.To(minDomains)
		}
		for _, f := range change {
			f(&c)
		}
		p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, c)
	}
}

func gang(n int, app string, options ...option) (list []*corev1.Pod) {
	for i := range n {
		list = append(list, pod(fmt.Sprintf("%s-%d", app, i), app, options...))
	}
	return list
}

// full are pods that take all GPUs of hosts.
func full(hosts ...string) (list []*corev1.Pod) {
	for _, host := range hosts {
		list = append(list, pod("full-1-"+host, "full", on(host)), pod("full-2-"+host, "full", on(host)))
	}
	return list
}

// also adds the affinity of an option to what a pod has.
func also(o option) option {
	return func(p *corev1.Pod) {
		other := &corev1.Pod{}
		o(other)
		affinityOf(p).PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution = append(
			p.Spec.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution, other.Spec.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution...)
	}
}

func graphOf(pods []*corev1.Pod, required string) placement.Demand {
	replica := placement.Replica{}
	for _, p := range pods {
		replica.Pods = append(replica.Pods, placement.Pod{ID: topology.PodID(p), Name: p.Name, Shape: topology.ShapeOf(p)})
	}
	return placement.Demand{
		Name: "g", Levels: levels, Required: topology.NoLevel, Preferred: topology.NoLevel,
		Components: []placement.Component{{
			Name: "s", Multinode: true, Required: levels.Index(required), Preferred: topology.NoLevel, Waiting: []placement.Replica{replica},
		}},
	}
}

func planned(r placement.ReplicaResult) (nodes []string) {
	for _, p := range r.Pods {
		nodes = append(nodes, p.Node)
	}
	slices.Sort(nodes)
	return nodes
}
