// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/cli/text"
	"github.com/trellis-k8s/trellis/test/testutil/golden"
)

const chatRunning = `chat-vllmworker-0-0 a-0-0
chat-vllmworker-0-1 a-0-1
chat-vllmworker-0-2 a-0-2
chat-vllmworker-0-3 a-0-3
chat-vllmworker-1-0 b-1-0
chat-vllmworker-1-1 b-1-1
chat-vllmworker-1-2 b-1-2
chat-vllmworker-1-3 b-1-3
chat-frontend-0 a-0-0
chat-frontend-1 a-1-2`

const smallRunning = "small-decode-0 b-2-0\nsmall-decode-1 b-2-0\nsmall-decode-2 b-2-1"

// TestText shows the whole output for one situation each.
func TestText(t *testing.T) {
	for name, prepare := range map[string]func(*world){
		"one-graph": func(w *world) { w.addGraph(packed, chatRunning) },
		"two-graphs": func(w *world) {
			w.addGraph(packed, chatRunning)
			w.addGraph(small, smallRunning).Status.Placement = &nvidiav1beta1.PlacementStatus{Domain: "zone-b"}
		},
		"waiting": func(w *world) {
			dgd := w.addGraph(packed, strings.NewReplacer(
				"vllmworker-1-0 b-1-0", "vllmworker-1-0 -", "vllmworker-1-1 b-1-1", "vllmworker-1-1 -",
				"vllmworker-1-2 b-1-2", "vllmworker-1-2 -", "vllmworker-1-3 b-1-3", "vllmworker-1-3 -").Replace(chatRunning))
			setCondition(dgd, nvidiav1beta1.ConditionReady, false, "insufficient_capacity", "Resources not ready")
			setCondition(dgd, nvidiav1beta1.ConditionPlaced, false, "InsufficientCapacity", "1 of 2 packed replicas are placed. VllmWorker-1: needs 4 pods x 8 nvidia.com/gpu in one rack; "+
				"zone-b/r1 holds 3 of 4 (1 host cordoned); 4 other racks hold fewer")
		},
		"sick-nodes": func(w *world) {
			w.addGraph(packed, chatRunning)
			w.node("a-0-1").Spec.Unschedulable = true
			w.node("b-1-2").Status.Conditions[0].Status = corev1.ConditionFalse
			w.Nodes = append(w.Nodes[:2], w.Nodes[3:]...) // a-0-2 is gone
			w.Pods[1].Status.Conditions = nil
			w.addPod("b-0-0", "5")
		},
		"released-and-tainted": func(w *world) { // the second replica is released to r1 of zone-b, of which one host has a taint
			w.addGraph(packed, strings.NewReplacer(
				"vllmworker-1-0 b-1-0", "vllmworker-1-0 ~ zone-b r1", "vllmworker-1-1 b-1-1", "vllmworker-1-1 ~ zone-b r1",
				"vllmworker-1-2 b-1-2", "vllmworker-1-2 -", "vllmworker-1-3 b-1-3", "vllmworker-1-3 -").Replace(chatRunning))
			w.node("b-1-3").Spec.Taints = []corev1.Taint{{Key: "repair", Value: "soon", Effect: corev1.TaintEffectNoSchedule}}
			w.node("b-0-0").Spec.Taints = []corev1.Taint{{Key: "repair", Value: "soon", Effect: corev1.TaintEffectPreferNoSchedule}}
		},
		"unlabeled-nodes": func(w *world) {
			w.addGraph(packed, chatRunning)
			delete(w.node("a-1-2").Labels, "example/rack") // the frontend's
			delete(w.node("b-2-0").Labels, "example/rack")
			w.addNode("stray", nil)
		},
		"outside-its-domain": func(w *world) { // the rack of one host is relabelled under a pod
			dgd := w.addGraph(packed, chatRunning)
			w.node("b-1-3").Labels["example/rack"] = "r9"
			setCondition(dgd, nvidiav1beta1.ConditionPlaced, false, "OutsideReplicaDomain",
				"by the labels of their nodes, VllmWorker-1 has 1 of 4 pods outside rack zone-b/r1, in zone-b/r9; running pods stay")
		},
		"moving": func(w *world) { // its rack has a host that is drained
			dgd := w.addGraph(packed, chatRunning)
			w.node("b-1-3").Spec.Unschedulable = true
			setCondition(dgd, nvidiav1beta1.ConditionMoved, false, "Moving",
				"moving VllmWorker-1: its successor VllmWorker-2 waits for a place (node b-1-3 is drained)")
		},
		"level-removed": func(w *world) {
			dgd := w.addGraph(packed, chatRunning)
			setCondition(dgd, nvidiav1beta1.ConditionTopologyLevelsAvailable, false, "TopologyLevelsUnavailable",
				"Topology level 'rack' is no longer available in the cluster topology")
			w.Topologies[0] = hall("zone", "host")
		},
		"namespaces-and-no-constraint": func(w *world) {
			w.addGraph(small, smallRunning)
			w.addGraph(plain, "plain-worker-0 a-2-3")
		},
		"resource-ignored": func(w *world) {
			w.addGraph(small, smallRunning)
			w.Ignored = []string{gpus}
		},
		"no-topology": func(w *world) {
			w.addGraph(plain, "plain-worker-0 a-2-3")
			w.Topologies = nil
		},
		"nodes-hidden": func(w *world) {
			w.addGraph(small, smallRunning)
			for i := range w.Pods[:2] { // the third was not pinned
				w.Pods[i].Spec.NodeSelector = map[string]string{"example/zone": "zone-b", "example/rack": "r2"}
			}
			w.Nodes, w.NodesHidden = nil, true
		},
		"other-pods-hidden": func(w *world) {
			w.addGraph(small, smallRunning)
			w.OthersHidden = true
		},
		"node-pool": func(w *world) {
			for _, n := range []string{"b-2-0", "b-2-1", "b-2-2"} {
				w.node(n).Labels["pool"] = "fast"
			}
			w.Topologies[0].Spec.NodeSelector = map[string]string{"pool": "fast"}
			w.addGraph(small, smallRunning)
		},
		"asked-for-topology": func(w *world) {
			w.addGraph(small, smallRunning)
			w.Topologies = append(w.Topologies, flat(nil))
			w.Topology = w.Topologies[1]
		},
		"two-topologies": func(w *world) { // over the same hosts: each host is drawn once
			w.addGraph(packed, chatRunning)
			w.addGraph(small, smallRunning)
			w.Topologies = append(w.Topologies, flat(nil))
			w.place("small", w.Topologies[1])
		},
		"two-pools": func(w *world) { // each on hosts of its own
			for i := range w.Nodes {
				w.Nodes[i].Labels["pool"] = map[bool]string{true: "fast", false: "slow"}[strings.HasPrefix(w.Nodes[i].Name, "b-2")]
			}
			w.Topologies[0].Spec.NodeSelector = map[string]string{"pool": "slow"}
			w.addGraph(packed, chatRunning)
			w.addGraph(small, smallRunning)
			w.Topologies = append(w.Topologies, flat(map[string]string{"pool": "fast"}))
			w.place("small", w.Topologies[1])
		},
		"pods-gone": func(w *world) { // and the status does not say so
			w.addGraph(small, smallRunning)
			w.Pods = w.Pods[1:]
		},
		"empty-topology": func(w *world) { w.Topology = w.Topologies[0] },
		"not-looked-at": func(w *world) {
			w.addGraph(small, "").Status = nvidiav1beta1.DynamoGraphDeploymentStatus{}
			w.Groups = nil
		},
		"large": func(w *world) { // 1,000 hosts: a graph's tree stays short
			for _, n := range newWorld(w.T, 5, 50, 4).Nodes {
				if !strings.HasPrefix(n.Name, "a-") && !strings.HasPrefix(n.Name, "b-") {
					w.Nodes = append(w.Nodes, n)
				}
			}
			w.addGraph(packed, chatRunning)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 2, 3, 4)
			prepare(w)
			report := Build(w.scene())
			golden.Check(t, "testdata/"+name+".golden", report.Text(text.Page{}))
		})
	}
}

// flat has one level above the hosts.
func flat(selector map[string]string) *grovev1alpha1.ClusterTopology {
	t := &grovev1alpha1.ClusterTopology{}
	t.Name, t.Spec.NodeSelector = "flat", selector
	t.Spec.Levels = []grovev1alpha1.TopologyLevel{{Domain: "row", Key: "example/rack"}}
	return t
}

// place has a graph placed by this topology.
func (w *world) place(graph string, t *grovev1alpha1.ClusterTopology) {
	for _, sg := range w.Groups {
		if sg.Spec.Graph == graph {
			sg.Spec.Topology.ClusterTopology, sg.Spec.Topology.NodeSelector, sg.Spec.Topology.Levels = t.Name, t.Spec.NodeSelector, nil
			for _, l := range t.Spec.Levels {
				sg.Spec.Topology.Levels = append(sg.Spec.Topology.Levels, trellisv1alpha1.ResolvedLevel{Domain: l.Domain, Key: l.Key})
			}
		}
	}
}

func TestJSON(t *testing.T) {
	w := newWorld(t, 1, 2, 2)
	w.addGraph(small, "small-decode-0 a-1-0\nsmall-decode-1 a-1-0\nsmall-decode-2 -")
	out, err := json.MarshalIndent(Build(w.scene()), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "testdata/report.json", string(out)+"\n")
}

// TestSums compares the root's amounts with the nodes', and the drawn domains plus the summed-up ones with all of them.
func TestSums(t *testing.T) {
	w := newWorld(t, 2, 3, 4)
	w.addGraph(packed, chatRunning)
	w.addPod("b-0-0", "5")
	w.node("b-2-3").Spec.Unschedulable = true
	root := Build(w.scene()).Trees[0].Cluster
	if want := (Amount{Used: 69, Free: 24*8 - 69 - 8, Total: 24 * 8}); *root.Amount != want {
		t.Errorf("cluster: %+v, want %+v", *root.Amount, want)
	}
	var check func(*Domain)
	check = func(d *Domain) {
		if d.Node {
			return
		}
		var sum *Amount
		for _, child := range d.Children {
			sum = sum.add(child.Amount)
			check(child)
		}
		for _, o := range d.Others {
			sum = sum.add(o.Amount)
		}
		if diff := cmp.Diff(d.Amount, sum); diff != "" {
			t.Errorf("%s %s (-own +sum of parts):\n%s", d.Level, d.Name, diff)
		}
	}
	check(root)
}

func TestDevices(t *testing.T) {
	for name, tc := range map[string]struct {
		asks []string
		want string
	}{
		"none":           {[]string{"cpu"}, ""},
		"gpu first":      {[]string{"aaa.com/nic", "aaa.com/nic", gpus}, gpus},
		"another device": {[]string{"gpu.intel.com/xe", "cpu"}, "gpu.intel.com/xe"},
		"most asked for": {[]string{"a.com/x", "b.com/y", "b.com/y"}, "b.com/y"},
		"not built in":   {[]string{"kubernetes.io/thing", "hugepages-2Mi"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := &graphPods{}
			for i, ask := range tc.asks {
				w := &world{T: t}
				w.addPod("n", "1")
				p := w.Pods[0]
				requests := p.Spec.Containers[0].Resources.Requests
				requests[corev1.ResourceName(ask)] = requests[gpus]
				if ask != gpus {
					delete(requests, gpus)
				}
				p.Name += string(rune('a' + i))
				g.pods = append(g.pods, memberPod{object: p})
			}
			if got := devices([]*graphPods{g}); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
