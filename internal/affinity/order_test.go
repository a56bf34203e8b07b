// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package affinity_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/trellis-k8s/trellis/internal/affinity"
	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// TestInAnyOrder: a gang is placed only where the kube-scheduler binds it whichever pod it tries first.
func TestInAnyOrder(t *testing.T) {
	ignoring := func(c *corev1.TopologySpreadConstraint) {
		c.NodeAffinityPolicy = ptr.To(corev1.NodeInclusionPolicyIgnore)
	}
	// oneEach are pods that leave one GPU of each host.
	var oneEach []*corev1.Pod
	for _, n := range nodes() {
		oneEach = append(oneEach, pod("busy-"+n.Name, "busy", on(n.Name)))
	}
	tests := map[string]struct {
		bound, gang []*corev1.Pod
		// want are the nodes, sorted; none: it is refused.
		want []string
	}{
		"either leads the other, one over zones and one over hosts": {
			gang: []*corev1.Pod{pod("x-0", "x", near(zone, "x")), pod("x-1", "x", near(corev1.LabelHostname, "x"))}, want: []string{"a1-1", "a1-1"},
		},
		"the one over hosts would be left if the other came first": {
			bound: oneEach, gang: []*corev1.Pod{pod("x-0", "x", near(zone, "x")), pod("x-1", "x", near(corev1.LabelHostname, "x"))},
		},
		"both over racks and hosts": {
			bound: oneEach, gang: gang(2, "x", near(rack, "x"), also(near(corev1.LabelHostname, "x"))),
		},
		"a pod that leads, and others that its constraint counts": {
			gang: append(gang(1, "x", near(rack, "x"), spread(zone, "x", 1, 0, ignoring)), gang(1, "y", near(zone, "x"))...), want: []string{"a1-1", "a1-1"},
		},
		"a constraint that counts pods which may come first": {
			gang: append(gang(1, "x", spread(zone, "x", 1, 0, ignoring)), pod("other-0", "x"), pod("other-1", "x")), want: []string{"a1-1", "a1-1", "b1-1"},
		},
		"a pod that leads next to pods that are spread, and one that these count": {
			bound: full("a2-1", "a2-2", "b1-1", "b1-2", "b2-1", "b2-2"),
			gang:  append(gang(2, "x", spread(corev1.LabelHostname, "x", 1, 0)), pod("y", "x"), pod("z", "z", near(zone, "z"))),
			want:  []string{"a1-1", "a1-1", "a1-2", "a1-2"},
		},
		"two constraints, each over pods of the other kind": {
			bound: full("a2-1", "a2-2", "b2-1", "b2-2"),
			gang:  append(gang(4, "x", spread(zone, "y", 1, 0, ignoring)), gang(4, "y", spread(zone, "x", 1, 0, ignoring))...),
			want:  []string{"a1-1", "a1-1", "a1-2", "a1-2", "b1-1", "b1-1", "b1-2", "b1-2"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c := topology.NewCluster()
			c.Binders = []topology.Binder{&affinity.Binder{}}
			for _, n := range nodes() {
				c.SetNode(n)
			}
			for _, p := range tc.bound {
				c.SetPod(p)
			}
			r := placement.PlanGraph(c, graphOf(tc.gang, ""), placement.Options{}).Replicas[0]
			if r.Refusal != nil && r.Refusal.Code == placement.CodeBudgetExhausted {
				t.Fatal(r.Refusal.Message())
			}
			if diff := cmp.Diff(tc.want, planned(r)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestInAnyOrderOfMany: the orders of a large gang are within the budget of a plan.
func TestInAnyOrderOfMany(t *testing.T) {
	ignoring := func(c *corev1.TopologySpreadConstraint) {
		c.NodeAffinityPolicy = ptr.To(corev1.NodeInclusionPolicyIgnore)
	}
	for name, pods := range map[string][]*corev1.Pod{
		"with each other in a zone":                gang(128, "x", near(zone, "x")),
		"two kinds, each with the other in a zone": append(gang(64, "x", near(zone, "x")), gang(64, "y", near(zone, "x"))...),
		"spread over hosts":                        gang(128, "x", spread(corev1.LabelHostname, "x", 1, 0, ignoring)),
		"spread over zones and hosts":              gang(64, "x", spread(zone, "x", 64, 0, ignoring), spread(corev1.LabelHostname, "x", 1, 0, ignoring)),
		"with each other and spread":               gang(64, "x", near(zone, "x"), spread(rack, "x", 32, 0)),
	} {
		t.Run(name, func(t *testing.T) {
			c := hall(512)
			if r := placement.PlanGraph(c, graphOf(pods, ""), placement.Options{}); !r.Placed() {
				t.Error(r.Replicas[0].Refusal.Message())
			}
		})
	}
}
