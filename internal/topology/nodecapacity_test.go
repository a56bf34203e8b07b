// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

// TestCapacityOf: pods, reservations and what closes a node count as they do in a plan, whose count of pods of one GPU each is given.
func TestCapacityOf(t *testing.T) {
	taint := corev1.Taint{Key: "repair", Value: "soon", Effect: corev1.TaintEffectNoSchedule}
	tainted := func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{taint} }
	tolerates := func(p *corev1.Pod) {
		p.Spec.Tolerations = []corev1.Toleration{{Key: "repair", Operator: corev1.TolerationOpExists}}
	}
	one := ShapeOf(makePod("one", "", amounts{gpu: "1"}))
	tolerant := ShapeOf(makePod("tolerant", "", amounts{gpu: "1"}, tolerates))
	for name, tc := range map[string]struct {
		change func(*corev1.Node)
		shapes []*Shape
		want   NodeCapacity
		closed string
	}{
		"open":                       {nil, []*Shape{one}, NodeCapacity{Total: 8, Used: 5, Free: 3}, ""},
		"cordoned":                   {func(n *corev1.Node) { n.Spec.Unschedulable = true }, []*Shape{one}, NodeCapacity{Total: 8, Used: 5}, "cordoned"},
		"not ready":                  {func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown }, []*Shape{tolerant}, NodeCapacity{Total: 8, Used: 5}, "not ready"},
		"without a condition":        {func(n *corev1.Node) { n.Status.Conditions = nil }, []*Shape{one}, NodeCapacity{Total: 8, Used: 5, Free: 3}, ""},
		"tainted":                    {tainted, []*Shape{one}, NodeCapacity{Total: 8, Used: 5}, "taint repair=soon:NoSchedule"},
		"tainted, and tolerated":     {tainted, []*Shape{tolerant}, NodeCapacity{Total: 8, Used: 5, Free: 3}, ""},
		"tainted, and one tolerates": {tainted, []*Shape{one, tolerant}, NodeCapacity{Total: 8, Used: 5, Free: 3}, ""},
		"a taint that only prefers": {
			func(n *corev1.Node) {
				n.Spec.Taints = []corev1.Taint{{Key: "repair", Effect: corev1.TaintEffectPreferNoSchedule}}
			},
			[]*Shape{one}, NodeCapacity{Total: 8, Used: 5, Free: 3}, "",
		},
		"shrunk":               {func(n *corev1.Node) { n.Status.Allocatable = amounts{gpu: "4"}.list() }, []*Shape{one}, NodeCapacity{Total: 4, Used: 5}, ""},
		"without the resource": {func(n *corev1.Node) { n.Status.Allocatable = amounts{"cpu": "4"}.list() }, []*Shape{one}, NodeCapacity{Used: 5}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := NewCluster()
			node := makeNode("n", at("a", "1"), amounts{gpu: "8"})
			if tc.change != nil {
				tc.change(node)
			}
			c.SetNode(node)
			c.SetNode(makeNode("other", at("a", "1"), amounts{gpu: "8"}))
			c.SetPod(makePod("bound", "n", amounts{gpu: "3"}))
			c.Assume("reserved", "n", ShapeOf(makePod("x", "", amounts{gpu: "2"})))
			got := c.CapacityOf("n", gpu, tc.shapes...)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			e, closed := c.Closed("n", tc.shapes...)
			if closed != (tc.closed != "") || closed && e.String() != tc.closed {
				t.Errorf("closed: %v, %s; want %q", closed, e, tc.closed)
			}
			id, _ := c.Node("n")
			fits := 0
			for _, s := range tc.shapes {
				fits = max(fits, c.Tree(zoneRack, nil).View(s).NodeFit(id))
			}
			if int64(fits) != got.Free {
				t.Errorf("%d pods of one GPU fit, and %d are free", fits, got.Free)
			}
		})
	}
}

// What is not known has nothing.
func TestCapacityOfTheUnknown(t *testing.T) {
	c := NewCluster()
	c.SetNode(makeNode("n", at("a", "1"), amounts{gpu: "8"}))
	one := ShapeOf(makePod("one", "", amounts{gpu: "1"}))
	if got := c.CapacityOf("none", gpu, one); got != (NodeCapacity{}) {
		t.Errorf("an unknown node: %+v", got)
	}
	if got := c.CapacityOf("n", "example.com/none", one); got != (NodeCapacity{}) {
		t.Errorf("an unknown resource: %+v", got)
	}
	c.SetPod(makePod("bound", "gone", amounts{gpu: "3"}))
	if got := c.CapacityOf("gone", gpu, one); got != (NodeCapacity{Used: 3}) {
		t.Errorf("a node that is known from a pod: %+v", got)
	}
}
