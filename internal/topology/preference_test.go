// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func soft(keys ...string) func(*corev1.Node) {
	return func(n *corev1.Node) {
		for _, key := range keys {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key, Effect: corev1.TaintEffectPreferNoSchedule})
		}
	}
}

// A node with fewer soft taints that the pod does not tolerate is better, then one with more weight.
func TestPreference(t *testing.T) {
	c := NewCluster()
	node := func(name string, labels map[string]string, edit func(*corev1.Node)) {
		n := makeNode(name, labels, amounts{gpu: "8"})
		edit(n)
		c.SetNode(n)
	}
	plain := ShapeOf(makePod("p", "", amounts{gpu: "1"}))
	node("plain", nil, func(*corev1.Node) {})
	if c.Prefers(plain) {
		t.Error("a pod without preferences prefers some of nodes without taints")
	}
	node("fast", map[string]string{"disk": "fast"}, func(*corev1.Node) {})
	node("old", map[string]string{"disk": "fast"}, soft("old"))
	if !c.Prefers(plain) {
		t.Error("a soft taint does not matter")
	}
	choosy := ShapeOf(makePod("p", "", amounts{gpu: "1"}, func(p *corev1.Pod) {
		p.Spec.Tolerations = []corev1.Toleration{{Key: "tolerated", Operator: corev1.TolerationOpExists}}
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{
			{Weight: 7, Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "disk", Operator: corev1.NodeSelectorOpExists}}}},
		}}}
	}))
	node("tolerated", nil, soft("tolerated"))
	for name, want := range map[string]Preference{"plain": {}, "fast": {Weight: 7}, "old": {Taints: 1, Weight: 7}, "tolerated": {}} {
		id, _ := c.Node(name)
		if got := c.Preference(id, choosy); got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
	if choosy.Key() == ShapeOf(makePod("p", "", amounts{gpu: "1"}, func(p *corev1.Pod) {
		p.Spec.Tolerations = []corev1.Toleration{{Key: "tolerated", Operator: corev1.TolerationOpExists}}
	})).Key() {
		t.Error("pods of different preferences count as interchangeable")
	}
	c.DeleteNode("old")
	c.DeleteNode("tolerated")
	if c.Prefers(plain) {
		t.Error("the taints of nodes that are gone matter")
	}
}
