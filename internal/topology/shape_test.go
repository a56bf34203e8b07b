// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"reflect"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func labelSelector(labels map[string]string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: labels}
}

func TestShapeCountsLikeTheScheduler(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	container := func(a amounts) corev1.Container {
		return corev1.Container{Resources: corev1.ResourceRequirements{Requests: a.list()}}
	}
	p := makePod("p", "", amounts{"cpu": "1", gpu: "2"})
	sidecar := container(amounts{"cpu": "500m"})
	sidecar.RestartPolicy = &always
	p.Spec.InitContainers = []corev1.Container{sidecar, container(amounts{"cpu": "3"})}
	p.Spec.Overhead = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")}
	want := []Request{{"cpu", 3500}, {"memory", 64 << 20}, {gpu, 2}}
	if diff := cmp.Diff(want, ShapeOf(p).Requests()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

// Every option of PodRequests is decided, as the kube-scheduler has it. A new one in a new version of component-helpers has to be looked up in
// pkg/scheduler/framework/types.go, and added here.
func TestEveryOptionOfCountingIsDecided(t *testing.T) {
	decided := map[string]any{
		"UseStatusResources":                             true, // in-place resizes of containers, KEP-1287
		"InPlacePodLevelResourcesVerticalScalingEnabled": true, // and of pods, KEP-5419
		"UseDRANodeAllocatableResourceClaimStatus":       true, // what claims take of cpu and memory, KEP-5517
		"SkipPodLevelResources":                          false,
		"SkipContainerLevelResources":                    false,
		"ExcludeOverhead":                                false,
		"Reuse":                                          corev1.ResourceList(nil),
		"NonMissingContainerRequests":                    corev1.ResourceList(nil), // for scores only
	}
	options := reflect.ValueOf(counting)
	for i := range options.NumField() {
		name := options.Type().Field(i).Name
		want, known := decided[name]
		if !known {
			t.Errorf("PodResourcesOptions.%s is not decided: look up what the kube-scheduler sets", name)
			continue
		}
		if diff := cmp.Diff(want, options.Field(i).Interface()); diff != "" {
			t.Errorf("PodResourcesOptions.%s (-decided +set):\n%s", name, diff)
		}
		delete(decided, name)
	}
	if len(decided) > 0 {
		t.Errorf("there are no options %v any more", decided)
	}
}

// A pod with resources of its own is resized in place: it counts as much as it may take at most, until its kubelet has carried that out, or refused it.
func TestPodLevelResizeCountsLikeTheScheduler(t *testing.T) {
	const cpu, memory = corev1.ResourceCPU, corev1.ResourceMemory
	resized := func(wanted, allocated, actuated string, conditions ...corev1.PodCondition) *corev1.Pod {
		p := makePod("p", "n", amounts{"cpu": "1", gpu: "2"})
		p.Spec.Resources = &corev1.ResourceRequirements{Requests: amounts{"cpu": wanted, "memory": "1Gi"}.list()}
		p.Status.AllocatedResources = amounts{"cpu": allocated, "memory": "1Gi", gpu: "2"}.list()
		p.Status.Resources = &corev1.ResourceRequirements{Requests: amounts{"cpu": actuated, "memory": "1Gi"}.list()}
		p.Status.Conditions = conditions
		return p
	}
	pending := func(reason string) corev1.PodCondition {
		return corev1.PodCondition{Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: reason}
	}
	for name, tc := range map[string]struct {
		pod *corev1.Pod
		cpu int64
	}{
		"as it is":                   {resized("4", "4", "4"), 4000},
		"shrinking":                  {resized("2", "2", "4"), 4000},
		"shrinking, just asked for":  {resized("2", "4", "4"), 4000},
		"shrunk":                     {resized("2", "2", "2"), 2000},
		"growing":                    {resized("8", "4", "4"), 8000},
		"growing, and deferred":      {resized("8", "4", "4", pending(corev1.PodReasonDeferred)), 8000},
		"growing, which cannot be":   {resized("8", "4", "4", pending(corev1.PodReasonInfeasible)), 4000},
		"shrinking, which cannot be": {resized("2", "4", "4", pending(corev1.PodReasonInfeasible)), 4000},
	} {
		t.Run(name, func(t *testing.T) {
			want := []Request{{string(cpu), tc.cpu}, {string(memory), 1 << 30}, {gpu, 2}}
			if diff := cmp.Diff(want, ShapeOf(tc.pod).Requests()); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
}

func TestShapeKey(t *testing.T) {
	base := ShapeOf(makePod("a", "", amounts{gpu: "1"}))
	spread := func(p *corev1.Pod) {
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{WhenUnsatisfiable: corev1.DoNotSchedule}}
	}
	cases := map[string]struct {
		pod  *corev1.Pod
		same bool
	}{
		"another name":      {pod: makePod("b", "", amounts{gpu: "1"}), same: true},
		"a zero request":    {pod: makePod("b", "", amounts{gpu: "1", "cpu": "0"}), same: true},
		"more gpus":         {pod: makePod("b", "", amounts{gpu: "2"})},
		"a node selector":   {pod: makePod("b", "", amounts{gpu: "1"}, func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"a": "b"} })},
		"a toleration":      {pod: makePod("b", "", amounts{gpu: "1"}, func(p *corev1.Pod) { p.Spec.Tolerations = []corev1.Toleration{{Key: "a"}} })},
		"a host port":       {pod: makePod("b", "", amounts{gpu: "1"}, func(p *corev1.Pod) { p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 1}} })},
		"one per host":      {pod: makePod("b", "", amounts{gpu: "1"}, onePerHost)},
		"a topology spread": {pod: makePod("b", "", amounts{gpu: "1"}, spread)},
		"affinity to a stranger": {pod: makePod("b", "", amounts{gpu: "1"}, func(p *corev1.Pod) {
			onePerHost(p)
			p.Labels = nil
		})},
		"a resource claim": {pod: makePod("b", "", amounts{gpu: "1"}, func(p *corev1.Pod) {
			p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu"}}
		})},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := ShapeOf(tc.pod)
			if got := s.Key() == base.Key(); got != tc.same {
				t.Errorf("same key %v, want %v", got, tc.same)
			}
		})
	}
}

func TestOnePerHostFitsOncePerNode(t *testing.T) {
	c := NewCluster()
	for i := range 3 {
		c.SetNode(makeNode("n"+strconv.Itoa(i), at("a", "1"), amounts{gpu: "8"}))
	}
	s := ShapeOf(makePod("p", "", amounts{gpu: "1"}, onePerHost))
	if got := fit(c, zoneRack, s); got != 3 {
		t.Errorf("fit %d, want 3", got)
	}
	c.Assume("x", "n1", s)
	if got := fit(c, zoneRack, s); got != 2 {
		t.Errorf("fit %d beside one of them, want 2", got)
	}
}
