// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package affinity_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/trellis-k8s/trellis/internal/affinity"
	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/topology"
)

func TestPlan(t *testing.T) {
	tests := map[string]struct {
		bound      []*corev1.Pod
		namespaces map[string]map[string]string
		gang       []*corev1.Pod
		required   string
		// want are the nodes, sorted, or a part of the refusal.
		want []string
		why  string
		// pinned: the planned hosts are pinned.
	}{
		"no rule": {gang: gang(2, "x"), want: []string{"a1-1", "a1-1"}},
		"kept off a running pod's zone": {
			bound: []*corev1.Pod{pod("web", "web", on("a2-1"))}, gang: gang(2, "x", away(zone, "web")), want: []string{"b1-1", "b1-1"},
		},
		"kept off by a running pod's own rule": {
			bound: []*corev1.Pod{pod("web", "web", on("a2-1"), away(zone, "x"))}, gang: gang(2, "x"), want: []string{"b1-1", "b1-1"},
		},
		"a running pod's rule about another namespace": {
			bound: []*corev1.Pod{pod("web", "web", in("other"), on("a2-1"), away(zone, "x"))}, gang: gang(2, "x"), want: []string{"a2-2", "a2-2"},
		},
		"a running pod's rule about namespaces by their labels": {
			bound:      []*corev1.Pod{pod("web", "web", in("other"), on("a2-1"), awayIn(zone, "x", &metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}}))},
			namespaces: map[string]map[string]string{"ns": {"team": "a"}}, gang: gang(2, "x"), want: []string{"b1-1", "b1-1"},
		},
		"a rule about all namespaces": {
			bound: []*corev1.Pod{pod("web", "web", in("other"), on("a2-1"))}, gang: gang(1, "x", awayIn(zone, "web", &metav1.LabelSelector{})), want: []string{"b1-1"},
		},
		"with a running pod": {
			bound: []*corev1.Pod{pod("cache", "cache", on("b2-1"))}, gang: gang(3, "x", near(rack, "cache")), want: []string{"b2-1", "b2-2", "b2-2"},
		},
		"with a pod that does not run": {
			gang: gang(1, "x", near(rack, "cache")), why: "needs 1 pod x 1 nvidia.com/gpu in the cluster; it holds 0 of 1 (8 hosts pod affinity unmet over example.com/rack)",
		},
		"with each other": {
			bound: []*corev1.Pod{pod("busy", "busy", on("a1-1")), pod("busy2", "busy", on("a1-1"))}, gang: gang(4, "x", near(rack, "x")),
			want: []string{"a2-1", "a2-1", "a2-2", "a2-2"},
		},
		"with each other, more than a rack holds": {
			gang: gang(5, "x", near(rack, "x")), why: "it holds 4 of 5 (6 hosts pod affinity unmet over example.com/rack)",
		},
		"a worker with its leader, which leaves the tightest host to others": {
			bound: []*corev1.Pod{pod("busy", "busy", on("a1-1"))},
			gang:  append(gang(1, "leader"), gang(1, "worker", near(corev1.LabelHostname, "leader"))...), want: []string{"a1-2", "a1-2"},
		},
		"two pods that each ask for the other": {
			gang: append(gang(1, "x", near(zone, "y")), gang(1, "y", near(zone, "x"))...), why: "it holds 0 of 2",
		},
		"each in a rack of its own": {
			gang: gang(3, "x", away(rack, "x")), want: []string{"a1-1", "a2-1", "b1-1"},
		},
		"more than there are racks": {
			gang: gang(5, "x", away(rack, "x")), why: "it holds 4 of 5 (8 hosts pod anti-affinity over example.com/rack)",
		},
		"one per host together with a pod of the kind that has no such rule": {
			bound: []*corev1.Pod{pod("x-old", "x", on("a1-1"))}, gang: gang(2, "x", away(corev1.LabelHostname, "x")), want: []string{"a2-1", "a2-2"},
		},
		"spread over zones": {
			gang: gang(4, "x", spread(zone, "x", 1, 0)), want: []string{"a1-1", "a1-1", "b1-1", "b1-1"},
		},
		"spread together with those that run": {
			bound: []*corev1.Pod{pod("x-8", "x", on("a1-1")), pod("x-9", "x", on("a1-1"))}, gang: gang(2, "x", spread(zone, "x", 1, 0)), want: []string{"b1-1", "b1-1"},
		},
		"spread inside the zone that has to hold the pods": {
			required: "zone", gang: gang(3, "x", spread(zone, "x", 1, 0)), want: []string{"a1-1", "a1-1", "a1-2"},
		},
		"spread over racks inside the zone that has to hold the pods": {
			required: "zone", gang: gang(4, "x", spread(rack, "x", 1, 0)), want: []string{"a1-1", "a1-1", "a2-1", "a2-1"},
		},
		"spread over fewer domains than it asks for": {
			gang: gang(3, "x", spread(zone, "x", 1, 3)), why: "topology spread over topology.kubernetes.io/zone",
		},
		"spread over nodes that pods tolerate": {
			gang: gang(2, "x", spread(zone, "x", 1, 0, func(c *corev1.TopologySpreadConstraint) { c.NodeTaintsPolicy = ptr.To(corev1.NodeInclusionPolicyHonor) })),
			want: []string{"a1-1", "b1-1"},
		},
		"spread next to others of the gang that it counts": {
			bound: full("a2-1", "a2-2", "b1-1", "b1-2", "b2-1", "b2-2"),
			gang:  append(gang(2, "x", spread(corev1.LabelHostname, "x", 1, 0)), pod("y", "x")), want: []string{"a1-1", "a1-1", "a1-2"},
		},
		"the same where the constraint ignores that hosts are pinned": {
			bound: full("a2-1", "a2-2", "b1-1", "b1-2", "b2-1", "b2-2"),
			gang: append(gang(2, "x", spread(corev1.LabelHostname, "x", 1, 0, func(c *corev1.TopologySpreadConstraint) {
				c.NodeAffinityPolicy = ptr.To(corev1.NodeInclusionPolicyIgnore)
			})), pod("y", "x")), why: "it holds 2 of 3",
		},
		"spread by a label the nodes lack": {
			gang: gang(1, "x", spread("absent", "x", 1, 0)), why: "8 hosts no label absent",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c := topology.NewCluster()
			c.Binders = []topology.Binder{&affinity.Binder{Namespaces: tc.namespaces}}
			for _, n := range nodes() {
				c.SetNode(n)
			}
			for _, p := range tc.bound {
				c.SetPod(p)
			}
			result := placement.PlanGraph(c, graphOf(tc.gang, tc.required), placement.Options{})
			r := result.Replicas[0]
			if tc.why != "" {
				if r.Refusal == nil || !strings.Contains(r.Refusal.Message(), tc.why) {
					t.Fatalf("not refused for %q: %+v, %v", tc.why, r.Pods, r.Refusal)
				}
				return
			}
			if r.Refusal != nil {
				t.Fatal("refused: " + r.Refusal.Message())
			}
			if diff := cmp.Diff(tc.want, planned(r)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Empty selectors of spread constraints count existing pods from Kubernetes 1.38 on.
func TestEmptySelector(t *testing.T) {
	for countsAll, want := range map[bool][]string{false: {"a1-2"}, true: {"b1-1"}} {
		c := topology.NewCluster()
		c.Binders = []topology.Binder{&affinity.Binder{CountsAll: countsAll}}
		for _, n := range nodes() {
			c.SetNode(n)
		}
		c.SetPod(pod("busy", "busy", on("a1-2")))
		asks := gang(1, "x", spread(zone, "x", 1, 0))
		asks[0].Spec.TopologySpreadConstraints[0].LabelSelector = &metav1.LabelSelector{}
		r := placement.PlanGraph(c, graphOf(asks, ""), placement.Options{}).Replicas[0]
		if r.Refusal != nil {
			t.Fatal(r.Refusal.Message())
		}
		if diff := cmp.Diff(want, planned(r)); diff != "" {
			t.Errorf("countsAll %t (-want +got):\n%s", countsAll, diff)
		}
	}
}

// A plan that is tried and dropped leaves nothing behind, and a pod that is bound or has a reservation counts for the next plan.
func TestReservationsCount(t *testing.T) {
	c := topology.NewCluster()
	c.Binders = []topology.Binder{&affinity.Binder{}}
	for _, n := range nodes() {
		c.SetNode(n)
	}
	graph := func(name string) placement.Demand { return graphOf([]*corev1.Pod{pod(name, "x", away(zone, "x"))}, "") }
	c.Begin()
	if r := placement.PlanGraph(c, graph("tried"), placement.Options{}); !r.Placed() {
		t.Fatal("not placed")
	}
	c.Rollback()
	var got []string
	for _, name := range []string{"first", "second", "third"} {
		r := placement.PlanGraph(c, graph(name), placement.Options{}).Replicas[0]
		got = append(got, planned(r)...)
		if name == "second" {
			c.SetPod(pod("second", "x", away(zone, "x"), on(r.Pods[0].Node)))
		}
	}
	if diff := cmp.Diff([]string{"a1-1", "b1-1"}, got); diff != "" {
		t.Error(diff)
	}
	c.DeletePod("ns/second")
	if got := planned(placement.PlanGraph(c, graph("third"), placement.Options{}).Replicas[0]); !slices.Equal(got, []string{"b1-1"}) {
		t.Errorf("the zone of a pod that is gone is taken: %v", got)
	}
}
