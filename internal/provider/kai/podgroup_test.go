// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package kai_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/provider/kai"
	"github.com/trellis-k8s/trellis/test/testutil/providertest"
)

func TestQueue(t *testing.T) {
	cases := map[string]struct {
		annotations, labels map[string]string
		present, want       string
	}{
		"KAI's default":             {want: "default-queue"},
		"as it was before":          {present: "dynamo", want: "dynamo"},
		"changed on the deployment": {present: "dynamo", annotations: map[string]string{kai.AnnotationQueue: "a"}, want: "a"},
		"annotation":                {annotations: map[string]string{kai.AnnotationQueue: "a"}, labels: map[string]string{kai.LabelQueue: "l"}, want: "a"},
		"label":                     {labels: map[string]string{kai.LabelQueue: "l"}, want: "l"},
	}
	for name, c := range cases {
		if got := kai.Queue(c.annotations, c.labels, c.present); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

// TestKeep: a queue that another client chose stays; one that the user changed on the deployment is written.
func TestKeep(t *testing.T) {
	cases := map[string]struct{ written, existing, wanted, want string }{
		"as written":                      {"a", "a", "a", "a"},
		"moved by another client":         {"a", "b", "a", "b"},
		"changed on the deployment":       {"a", "a", "c", "c"},
		"changed after another client":    {"a", "b", "c", "c"},
		"made by another client, no mark": {"", "b", "a", "a"},
	}
	dgd := providertest.Deployment(t, "metadata: {name: g, namespace: ns}\nspec: {services: {A: {componentType: worker, multinode: {nodeCount: 2}}}}")
	pod := func(queue string) *kai.PodGroup {
		g := providertest.KAI(t, dgd)
		g.Queue = queue
		return kai.RenderPodGroup(g)
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			have, want := pod(c.written), pod(c.wanted)
			have.Spec.Queue = c.existing
			if c.written == "" {
				have.Annotations = nil
			}
			kai.Keep(want, have)
			if want.Spec.Queue != c.want || want.Labels[kai.LabelQueue] != c.want {
				t.Errorf("got queue %q, label %q, want %q", want.Spec.Queue, want.Labels[kai.LabelQueue], c.want)
			}
		})
	}
}

// TestNamesDiffer: components whose names look like another's replica keep subgroups of their own.
func TestNamesDiffer(t *testing.T) {
	dgd := providertest.Deployment(t, `
metadata: {name: g, namespace: ns}
spec:
  topologyConstraint: {topologyProfile: grove-topology, packDomain: zone}
  services:
    X: {componentType: worker, replicas: 2, multinode: {nodeCount: 2}}
    X-1: {componentType: worker, multinode: {nodeCount: 2}}
    X-0: {componentType: worker}
    X-all: {componentType: worker}`)
	seen := map[string]bool{}
	for _, sub := range kai.RenderPodGroup(providertest.KAI(t, dgd)).Spec.SubGroups {
		if seen[sub.Name] {
			t.Errorf("two subgroups are named %q", sub.Name)
		}
		seen[sub.Name] = true
	}
	if len(seen) != 7 {
		t.Errorf("%d subgroups, want 7: %v", len(seen), seen)
	}
}

func TestLongNamesFitLabels(t *testing.T) {
	dgd := providertest.Deployment(t, "metadata: {name: "+strings.Repeat("a", 60)+", namespace: ns}\nspec: {services: {"+
		strings.Repeat("B", 50)+": {componentType: worker, replicas: 2, multinode: {nodeCount: 2}}}}")
	for _, pod := range providertest.Pods(providertest.KAI(t, dgd)) {
		if n := len(pod.Labels[kai.LabelSubGroup]); n > 63 {
			t.Errorf("label of %d characters", n)
		}
	}
}

func TestProblems(t *testing.T) {
	dgd := providertest.Deployment(t, `
metadata: {name: g, namespace: ns}
spec:
  services:
    A: {componentType: worker, multinode: {nodeCount: 2}, extraPodSpec: {schedulerName: volcano}}
    B: {componentType: worker, extraPodSpec: {schedulerName: kai-scheduler}}`)
	want := []string{`component "A" names schedulerName "volcano"; remove it, or choose another provider than KAI`}
	if diff := cmp.Diff(want, providertest.KAI(t, dgd).Problems()); diff != "" {
		t.Error(diff)
	}
}

// TestPriority: one class for the group, where the pods agree.
func TestPriority(t *testing.T) {
	dgd := providertest.Deployment(t, `
metadata: {name: g, namespace: ns}
spec:
  priorityClassName: high
  services:
    A: {componentType: worker, multinode: {nodeCount: 2}}
    B: {componentType: worker}`)
	class := func() string { return kai.RenderPodGroup(providertest.KAI(t, dgd)).Spec.PriorityClassName }
	if got := class(); got != "high" {
		t.Errorf("got %q, want high", got)
	}
	dgd.Component("A").PodTemplate = withPriority("low")
	if got := class(); got != "" {
		t.Errorf("pods differ, got %q", got)
	}
}

func withPriority(class string) *corev1.PodTemplateSpec {
	return &corev1.PodTemplateSpec{Spec: corev1.PodSpec{PriorityClassName: class}}
}

// TestSeveralTopologies: KAI is asked for levels of the deployment's one Topology alone.
func TestSeveralTopologies(t *testing.T) {
	dgd := providertest.Deployment(t, `
metadata: {name: g, namespace: ns}
spec:
  services:
    A: {componentType: worker, multinode: {nodeCount: 2}}
    B: {componentType: worker, multinode: {nodeCount: 2}}`)
	g := providertest.KAI(t, dgd)
	for _, sg := range g.Groups {
		sg.Spec.Topology = &trellisv1alpha1.ResolvedTopology{
			ClusterTopology: "of-" + sg.Spec.Component, Automatic: true, PreferredPackDomain: "rack",
			Levels: []trellisv1alpha1.ResolvedLevel{{Domain: "rack", Key: "rack-of-" + sg.Spec.Component}},
		}
	}
	g.Topology = "of-A"
	asked := map[string]string{}
	for _, sub := range kai.RenderPodGroup(g).Spec.SubGroups {
		if c := sub.TopologyConstraint; c != nil {
			asked[sub.Name] = c.Topology + " " + c.PreferredTopologyLevel
		}
	}
	if diff := cmp.Diff(map[string]string{"g-a-0": "of-A rack-of-A"}, asked); diff != "" {
		t.Error(diff)
	}
}
