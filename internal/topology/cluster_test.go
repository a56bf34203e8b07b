// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/trellis-k8s/trellis/internal/leaving"
)

func TestPodsCountByNodeName(t *testing.T) {
	shape := ShapeOf(makePod("q", "", amounts{gpu: "4"}))
	full := makeNode("n", at("a", "1"), amounts{gpu: "8"})
	four := func(name string) *corev1.Pod { return makePod(name, "n", amounts{gpu: "4"}) }
	cases := map[string]struct {
		do   func(c *Cluster)
		want int
	}{
		"empty node":          {do: func(*Cluster) {}, want: 2},
		"bound pod":           {do: func(c *Cluster) { c.SetPod(four("p")) }, want: 1},
		"bound twice is once": {do: func(c *Cluster) { c.SetPod(four("p")); c.SetPod(four("p")) }, want: 1},
		"deleted pod":         {do: func(c *Cluster) { c.SetPod(four("p")); c.DeletePod("ns/p") }, want: 2},
		"pod without a node":  {do: func(c *Cluster) { p := four("p"); p.Spec.NodeName = ""; c.SetPod(p) }, want: 2},
		"succeeded pod": {do: func(c *Cluster) {
			c.SetPod(four("p"))
			p := four("p")
			p.Status.Phase = corev1.PodSucceeded
			c.SetPod(p)
		}, want: 2},
		"terminating pod counts":       {do: func(c *Cluster) { p := four("p"); p.DeletionTimestamp = &metav1.Time{}; c.SetPod(p) }, want: 1},
		"reservation":                  {do: func(c *Cluster) { c.Assume("p", "n", shape) }, want: 1},
		"forgotten reservation":        {do: func(c *Cluster) { c.Assume("p", "n", shape); c.Forget("p") }, want: 2},
		"bound pod is not forgotten":   {do: func(c *Cluster) { c.SetPod(four("p")); c.Forget("ns/p") }, want: 1},
		"bound replaces reservation":   {do: func(c *Cluster) { c.Assume("ns/p", "n", shape); c.SetPod(four("p")) }, want: 1},
		"unbound keeps a reservation":  {do: func(c *Cluster) { c.Assume("ns/p", "n", shape); p := four("p"); p.Spec.NodeName = ""; c.SetPod(p) }, want: 1},
		"node gone":                    {do: func(c *Cluster) { c.DeleteNode("n") }, want: -1},
		"node back, its pod counted":   {do: func(c *Cluster) { c.SetPod(four("p")); c.DeleteNode("n"); c.SetNode(full) }, want: 1},
		"more bound than the node has": {do: func(c *Cluster) { c.SetPod(four("p")); c.SetPod(four("q")); c.SetPod(four("r")) }, want: 0},
		"pod resized while it runs": {do: func(c *Cluster) {
			c.SetPod(four("p"))
			c.SetPod(makePod("p", "n", amounts{gpu: "8"}))
		}, want: 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := NewCluster()
			c.SetNode(full)
			fit(c, zoneRack, shape, "a", "1")
			tc.do(c)
			if got := fit(c, zoneRack, shape, "a", "1"); got != tc.want {
				t.Errorf("fit %d, want %d", got, tc.want)
			}
		})
	}
}

func TestPodIDPrefersUID(t *testing.T) {
	p := makePod("p", "", nil)
	if got := PodID(p); got != "ns/p" {
		t.Errorf("without UID: %q", got)
	}
	p.UID = "u1"
	if got := PodID(p); got != "u1" {
		t.Errorf("with UID: %q", got)
	}
}

// A pod that was created as planned has the planned shape, whatever it is pinned to, and one that takes something else has its own.
func TestReservationsAreHandedOver(t *testing.T) {
	whole := ShapeOf(makePod("s", "", amounts{gpu: "8"}))
	pinned := func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"r": "1"} }
	for name, tc := range map[string]struct {
		pod      *corev1.Pod
		planned  bool
		wantFree int
	}{
		"as planned":          {makePod("p", "", amounts{gpu: "8"}, pinned), true, 0},
		"it takes less":       {makePod("p", "", amounts{gpu: "4"}, pinned), false, 1},
		"it takes a port too": {makePod("p", "", amounts{gpu: "8"}, pinned, takesPorts(80, 1)), false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			c := NewCluster()
			c.SetNode(makeNode("A", at("a", "1"), amounts{gpu: "8"}))
			c.HandOver("planned", tc.pod)
			if _, reserved := c.Reserved("ns/p"); reserved {
				t.Error("it has a reservation that no one had")
			}
			c.Assume("planned", "A", whole)
			c.HandOver("planned", tc.pod)
			_, former := c.Reserved("planned")
			if node, _ := c.Reserved("ns/p"); node != "A" || former {
				t.Errorf("reserved on %q, and for the planned pod: %v", node, former)
			}
			c.Reservations(func(_, _ string, s *Shape) {
				if got := s.Key() == whole.Key(); got != tc.planned {
					t.Errorf("it has the planned shape: %v, want %v", got, tc.planned)
				}
			})
			if got := fit(c, zoneRack, ShapeOf(makePod("q", "", amounts{gpu: "4"})), "a", "1"); got != tc.wantFree {
				t.Errorf("%d pods of half a host fit, want %d", got, tc.wantFree)
			}
		})
	}
}

// TestReservationSwap: the scheduler may bind any of several alike pods that are pinned by labels to any of their hosts; the capacity stays
// counted once per host. Pods that are pinned to a host keep it.
func TestReservationSwap(t *testing.T) {
	whole, half := ShapeOf(makePod("s", "", amounts{gpu: "8"})), ShapeOf(makePod("s", "", amounts{gpu: "4"}))
	rack1 := map[string]string{"z": "a", "r": "1"}
	cases := map[string]struct {
		other  *Shape
		pin    map[string]string
		pinned bool
		// wantNode is where q's reservation is after p, reserved on B, was bound to A.
		wantNode string
	}{
		"alike pods swap":                      {other: whole, wantNode: "B"},
		"a pod pinned to the rack swaps in it": {other: whole, pin: rack1, wantNode: "B"},
		"a pod pinned elsewhere stays":         {other: whole, pin: map[string]string{"r": "2"}, wantNode: "A"},
		"another shape stays":                  {other: half, wantNode: "A"},
		"a pod pinned to its host stays":       {other: whole, pin: rack1, pinned: true, wantNode: "A"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := NewCluster()
			c.SetNode(makeNode("A", at("a", "1"), amounts{gpu: "8"}))
			c.SetNode(makeNode("B", at("a", "1"), amounts{gpu: "8"}))
			c.Assume("ns/p", "B", whole)
			c.AssumePinned("ns/q", "A", tc.other, tc.pin)
			c.Loosen("ns/p")
			if !tc.pinned {
				c.Loosen("ns/q")
			}
			c.Begin()
			c.SetPod(makePod("p", "A", amounts{gpu: "8"}))
			if node, _ := c.Reserved("ns/q"); node != tc.wantNode {
				t.Errorf("q reserved on %q, want %q", node, tc.wantNode)
			}
			if node, _ := c.Bound("ns/p"); node != "A" {
				t.Errorf("p bound to %q, want A", node)
			}
			if tc.wantNode == "B" && fit(c, zoneRack, half, "a", "1") != 0 {
				t.Error("both hosts are taken, yet there is capacity")
			}
			c.Rollback()
			if node, _ := c.Reserved("ns/q"); node != "A" {
				t.Errorf("after rollback q reserved on %q, want A", node)
			}
			if node, _ := c.Reserved("ns/p"); node != "B" {
				t.Errorf("after rollback p reserved on %q, want B", node)
			}
		})
	}
}

// TestWhy covers every reason a node is left out or short.
func TestWhy(t *testing.T) {
	ask := amounts{gpu: "8", "cpu": "2"}
	capacity := amounts{gpu: "8", "cpu": "4"}
	pod := func(change ...func(*corev1.Pod)) *corev1.Pod { return makePod("p", "", ask, change...) }
	affinity := func(key string, fields bool) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			req := []corev1.NodeSelectorRequirement{{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{"n"}}}
			term := corev1.NodeSelectorTerm{MatchExpressions: req}
			if fields {
				term = corev1.NodeSelectorTerm{MatchFields: req}
			}
			p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{term}}}}
		}
	}
	tolerate := func(key string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists})
		}
	}
	port := func(ip string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 80, HostIP: ip}}
		}
	}
	taint := func(n *corev1.Node) {
		n.Spec.Taints = []corev1.Taint{{Key: "k", Value: "v", Effect: corev1.TaintEffectNoSchedule}}
	}
	cordon := func(n *corev1.Node) {
		n.Spec.Unschedulable = true
		n.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}}
	}
	small := func(change ...func(*corev1.Pod)) *corev1.Pod {
		return makePod("other", "n", amounts{"cpu": "1"}, change...)
	}
	cases := map[string]struct {
		node  *corev1.Node
		other *corev1.Pod
		pod   *corev1.Pod
		want  string
	}{
		"fits":                   {node: makeNode("n", nil, capacity), pod: pod()},
		"cordoned":               {node: makeNode("n", nil, capacity, cordon), pod: pod(), want: "cordoned"},
		"cordoned and tolerated": {node: makeNode("n", nil, capacity, cordon), pod: pod(tolerate(corev1.TaintNodeUnschedulable))},
		"not ready":              {node: makeNode("n", nil, capacity, func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown }), pod: pod(), want: "not ready"},
		"no ready condition yet": {node: makeNode("n", nil, capacity, func(n *corev1.Node) { n.Status.Conditions = nil }), pod: pod()},
		"about to be removed, whatever the pod tolerates": {
			node: makeNode("n", nil, capacity, func(n *corev1.Node) {
				n.Spec.Taints = []corev1.Taint{{Key: "karpenter.sh/disrupted", Effect: corev1.TaintEffectNoSchedule}}
			}), pod: pod(tolerate("karpenter.sh/disrupted")), want: "about to be removed",
		},
		"drained, and the cordon tolerated": {
			node: makeNode("n", nil, capacity, cordon, func(n *corev1.Node) { n.Annotations = map[string]string{leaving.AnnotationDrain: ""} }),
			pod:  pod(tolerate(corev1.TaintNodeUnschedulable)), want: "about to be removed",
		},
		"taint":           {node: makeNode("n", nil, capacity, taint), pod: pod(), want: "taint k=v:NoSchedule"},
		"taint tolerated": {node: makeNode("n", nil, capacity, taint), pod: pod(tolerate("k"))},
		"soft taint": {node: makeNode("n", nil, capacity, func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectPreferNoSchedule}}
		}), pod: pod()},
		"node selector":                {node: makeNode("n", nil, capacity), pod: pod(func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"x": "y"} }), want: "node selector mismatch"},
		"affinity to a label":          {node: makeNode("n", map[string]string{"x": "n"}, capacity), pod: pod(affinity("x", false))},
		"affinity to another label":    {node: makeNode("n", nil, capacity), pod: pod(affinity("x", false)), want: "node affinity mismatch"},
		"affinity to the name":         {node: makeNode("n", nil, capacity), pod: pod(affinity("metadata.name", true))},
		"affinity to another name":     {node: makeNode("m", nil, capacity), pod: pod(affinity("metadata.name", true)), want: "node affinity mismatch"},
		"gpu short":                    {node: makeNode("n", nil, amounts{gpu: "7", "cpu": "4"}), pod: pod(), want: "short of nvidia.com/gpu"},
		"cpu short":                    {node: makeNode("n", nil, amounts{gpu: "8", "cpu": "1"}), pod: pod(), want: "short of cpu"},
		"a resource the node lacks":    {node: makeNode("n", nil, capacity), pod: makePod("p", "", amounts{"vendor.example/nic": "1"}), want: "short of vendor.example/nic"},
		"no pod slot":                  {node: makeNode("n", nil, amounts{gpu: "8", "cpu": "4", "pods": "1"}), other: small(), pod: pod(), want: "pod slots used up"},
		"host port taken":              {node: makeNode("n", nil, capacity), other: small(port("")), pod: pod(port("10.0.0.1")), want: "short of host port 80/TCP"},
		"host port on another address": {node: makeNode("n", nil, capacity), other: small(port("10.0.0.2")), pod: pod(port("10.0.0.1"))},
		"one per host":                 {node: makeNode("n", nil, capacity), other: small(onePerHost), pod: pod(onePerHost), want: "taken by one-per-host pod"},
		"one per host, others welcome": {node: makeNode("n", nil, capacity), other: small(), pod: pod(onePerHost)},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := NewCluster()
			c.SetNode(tc.node)
			if tc.other != nil {
				c.SetPod(tc.other)
			}
			s := ShapeOf(tc.pod)
			e, excluded := c.Why(tc.node.Name, s)
			got := ""
			if excluded {
				got = e.String()
			}
			if got != tc.want {
				t.Errorf("reason %q, want %q", got, tc.want)
			}
			if capacity := fit(c, nil, s) > 0; capacity == excluded {
				t.Errorf("fit says %v, the reason %q", capacity, got)
			}
		})
	}
}
