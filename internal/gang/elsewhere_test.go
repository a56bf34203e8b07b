// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package gang_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/provider/gates"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/topology"
	"github.com/trellis-k8s/trellis/test/testutil/gangtest"
)

// released is a pod after the patch that releases it.
func released(t *testing.T, pod *corev1.Pod, pin gang.Pin) *corev1.Pod {
	t.Helper()
	patch, err := gates.Patch(pod, pin)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	patched, err := strategicpatch.StrategicMergePatch(whole, patch, corev1.Pod{})
	if err != nil {
		t.Fatal(err)
	}
	out := &corev1.Pod{}
	if err := json.Unmarshal(patched, out); err != nil {
		t.Fatal(err)
	}
	return out
}

// A pod that was released is planned again as what it was before: with the pins of its template, and without those of its release. Else a gang would be
// evicted for capacity that it does not fit, or never.
func TestReleasedPodsArePlannedAgainAsTheyWere(t *testing.T) {
	term := func(fields ...corev1.NodeSelectorRequirement) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchFields: fields}
	}
	required := func(terms ...corev1.NodeSelectorTerm) *corev1.Affinity {
		return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms},
		}}
	}
	model := corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "model", Operator: corev1.NodeSelectorOpExists}}}
	preferring := &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{Weight: 1, Preference: model}},
	}}
	apart := &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: corev1.LabelHostname}},
	}}
	labels := map[string]string{"z": "z1", "r": "r1", "pool": "gpu"}
	for name, edit := range map[string]func(*corev1.PodSpec){
		"plain":                   func(*corev1.PodSpec) {},
		"a selector of its own":   func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{"model": "h100"} },
		"a pinned zone":           func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{"z": "z1"} },
		"a required affinity":     func(s *corev1.PodSpec) { s.Affinity = required(model, model) },
		"a preferred affinity":    func(s *corev1.PodSpec) { s.Affinity = preferring },
		"an anti-affinity":        func(s *corev1.PodSpec) { s.Affinity = apart },
		"a node by its own name":  func(s *corev1.PodSpec) { s.Affinity = required(term(named("n7"))) },
		"a gate of somebody else": func(s *corev1.PodSpec) { s.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/x"}} },
	} {
		for how, pin := range map[string]gang.Pin{
			"by labels": {Labels: labels}, "to a host": {Labels: labels, Node: "n1"},
		} {
			t.Run(name+", "+how, func(t *testing.T) {
				sg := gangtest.Group("work", 1, 2, gangtest.Frozen("", "rack"))
				sg.Spec.Topology.NodeSelector = map[string]string{"pool": "gpu"}
				for i := range sg.Spec.Roles {
					edit(&sg.Spec.Roles[i].Template.Spec)
				}
				pod := gangtest.Pod(sg, 0, 1)
				pin.Gang = "gang"
				open := released(t, pod, pin)
				if render.GateClosed(open) || topology.ShapeOf(open).Key() == topology.ShapeOf(pod).Key() {
					t.Fatalf("nothing is pinned: %v", open.Spec)
				}
				open.Spec.NodeName = "n1"
				again := gang.Regated(sg, open)
				if diff := cmp.Diff(topology.ShapeOf(pod).Key(), topology.ShapeOf(again).Key()); diff != "" {
					t.Errorf("shape (-before the release +after):\n%s", diff)
				}
				if !render.GateClosed(again) || again.Spec.NodeName != "" || again.Annotations[render.AnnotationGang] != "" {
					t.Errorf("it does not wait: %v", again.Spec)
				}
				if open.Spec.NodeName == "" || render.GateClosed(open) {
					t.Error("the pod of the cache was changed")
				}
			})
		}
	}
}

func named(node string) corev1.NodeSelectorRequirement {
	return corev1.NodeSelectorRequirement{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{node}}
}

// A replica that is released and not bound may have more pods than are made now. They are planned again without the pins of their release.
func TestPodsOfAFormerSizeArePlannedAgain(t *testing.T) {
	former, now := gangtest.Group("work", 1, 3, gangtest.Frozen("", "rack")), gangtest.Group("work", 1, 2, gangtest.Frozen("", "rack"))
	pod := gangtest.Pod(former, 0, 2)
	for how, pin := range map[string]gang.Pin{"by labels": {}, "to a host": {Node: "n1"}} {
		pin.Gang, pin.Labels = "gang", map[string]string{"z": "z1", "r": "r1"}
		again := gang.Regated(now, released(t, pod, pin))
		if diff := cmp.Diff(topology.ShapeOf(pod).Key(), topology.ShapeOf(again).Key()); diff != "" {
			t.Errorf("%s: shape (-before the release +after):\n%s", how, diff)
		}
	}
}
