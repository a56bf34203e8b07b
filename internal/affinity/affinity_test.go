// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package affinity_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/trellis-k8s/trellis/internal/affinity"
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
