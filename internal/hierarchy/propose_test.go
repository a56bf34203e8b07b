// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package hierarchy

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/trellis-k8s/trellis/test/testutil/simulated"
)

// fleet makes two domains of each key in each domain of the key before; values are unique unless the key starts with '+'.
func fleet(keys ...string) []Node {
	nodes := []Node{{Labels: map[string]string{}, Accelerated: true}}
	for _, key := range keys {
		name, repeats := strings.CutPrefix(key, "+")
		var next []Node
		for _, n := range nodes {
			for i := range 2 {
				labels := map[string]string{name: fmt.Sprintf("v%s%d", n.Name, i)}
				if repeats {
					labels[name] = fmt.Sprint(i)
				}
				for k, v := range n.Labels {
					labels[k] = v
				}
				next = append(next, Node{Name: fmt.Sprintf("%s%d", n.Name, i), Labels: labels, Accelerated: true})
			}
		}
		nodes = next
	}
	for i := range nodes {
		nodes[i].Name = "n" + nodes[i].Name
		nodes[i].Labels["kubernetes.io/hostname"] = nodes[i].Name
		nodes[i].Labels["kubernetes.io/arch"] = "amd64"
	}
	return nodes
}

// with changes some nodes.
func with(nodes []Node, change func(i int, n *Node)) []Node {
	for i := range nodes {
		change(i, &nodes[i])
	}
	return nodes
}

func TestPropose(t *testing.T) {
	const (
		zoneKey, regionKey, rackKey = "topology.kubernetes.io/zone", "topology.kubernetes.io/region", "topology.trellis.dev/rack"
		cliqueKey                   = "nvidia.com/gpu.clique"
	)
	var demo []Node
	for _, n := range simulated.DefaultShape.Nodes() {
		n.Labels["kubernetes.io/hostname"] = n.Name
		demo = append(demo, Node{Name: n.Name, Labels: n.Labels, Accelerated: true})
	}
	for name, tc := range map[string]struct {
		nodes []Node
		want  string
		notes []string
	}{
		"the sandbox": {nodes: demo, want: "zone 2, block 4, rack 12, host 48"},
		"GB200 with a clique": {
			nodes: with(fleet(zoneKey, cliqueKey, "x"), func(_ int, n *Node) { n.Labels["node.coreweave.cloud/rack"] = n.Labels[cliqueKey][2:] }),
			want:  "zone 2, nvlink 4, host 8", notes: []string{"label node.coreweave.cloud/rack (CoreWeave) is left out: it groups the nodes as nvidia.com/gpu.clique does"},
		},
		"GKE": {
			nodes: with(fleet(zoneKey, "cloud.google.com/gce-topology-block", "cloud.google.com/gce-topology-subblock", "x"), func(_ int, n *Node) {
				n.Labels["cloud.google.com/gce-topology-host"], n.Labels[regionKey] = "h"+n.Name, "r"
			}),
			want: "zone 2, block 4, subblock 8, host 16",
			notes: []string{
				"label topology.kubernetes.io/region (Kubernetes) is left out: it has one value",
				"label cloud.google.com/gce-topology-host (Google GKE) is left out: it groups the nodes as kubernetes.io/hostname does",
			},
		},
		"EKS": {
			nodes: fleet(zoneKey, "topology.k8s.aws/network-node-layer-1", "topology.k8s.aws/network-node-layer-2", "topology.k8s.aws/network-node-layer-3", "x"),
			want:  "zone 2, network-1 4, network-2 8, network-3 16, host 32",
		},
		"AKS": {nodes: fleet(zoneKey, "kubernetes.azure.com/ppg", "x"), want: "zone 2, placement-group 4, host 8"},
		"OCI": {
			nodes: fleet("oci.oraclecloud.com/rdma.hpc_island_id", "oci.oraclecloud.com/rdma.network_block_id", "oci.oraclecloud.com/rdma.local_block_id", "x"),
			want:  "island 2, block 4, local-block 8, host 16",
		},
		"CoreWeave": {
			nodes: fleet(zoneKey, "backend.coreweave.cloud/fabric", "+backend.coreweave.cloud/leafgroup", "ds.coreweave.com/nvlink.domain", "x"),
			want:  "zone 2, fabric 4, leafgroup 8, rack 16, host 32",
		},
		"Topograph": {
			nodes: fleet("network.topology.nvidia.com/core", "network.topology.nvidia.com/spine", "network.topology.nvidia.com/leaf", "network.topology.nvidia.com/accelerator", "x"),
			want:  "core 2, spine 4, leaf 8, accelerator 16, host 32",
		},
		"Topograph since 1.0": {
			nodes: fleet("fabric.topograph.run/tier-1", "fabric.topograph.run/tier-0", "accelerator.topograph.run/domain", "accelerator.topograph.run/sub-domain", "x"),
			want:  "spine 2, leaf 4, accelerator 8, nvlink-partition 16, host 32",
		},
		"Topograph with four tiers": {
			nodes: fleet("network.topology.nvidia.com/tier-3", "network.topology.nvidia.com/tier-2", "network.topology.nvidia.com/tier-1",
				"network.topology.nvidia.com/tier-0", "network.topology.nvidia.com/accelerator", "x"),
			want: "tier-3 2, core 4, spine 8, leaf 16, accelerator 32, host 64",
		},
		"Topograph, NVLink domains of several leaves": {
			nodes: fleet("fabric.topograph.run/tier-1", "network.topology.nvidia.com/accelerator", "fabric.topograph.run/tier-0", "x"),
			want:  "spine 2, accelerator 4, leaf 8, host 16",
			notes: []string{"label network.topology.nvidia.com/accelerator is placed above fabric.topograph.run/tier-0, because each value of the latter lies in one of the former"},
		},
		"families whose place is not known": {
			nodes: with(fleet(zoneKey, "net.example.com/layer-1", "net.example.com/layer-2", "x"), func(_ int, n *Node) {
				n.Labels["example.com/switch.id"], n.Labels["example.com/network"] = n.Labels["net.example.com/layer-2"], "flat"
				n.Labels["example.com/fabric-port"] = n.Name
			}),
			want: "zone 2, host 16",
			notes: []string{
				"label example.com/switch.id is left out: its place in the network is not known",
				"labels net.example.com/layer-N (2 labels; values: 4, 8) are left out: their place in the network is not known",
			},
		},
		"one zone, one rack": {
			nodes: with(fleet("x"), func(_ int, n *Node) {
				n.Labels[zoneKey], n.Labels["failure-domain.beta.kubernetes.io/zone"], n.Labels[cliqueKey] = "z", "z", "uuid.1"
			}),
			want:  "zone 1, nvlink 1, host 2",
			notes: []string{"label failure-domain.beta.kubernetes.io/zone (Kubernetes, before 1.17) is left out: it groups the nodes as topology.kubernetes.io/zone does"},
		},
		"nodes without accelerators": {
			nodes: append(fleet(zoneKey, rackKey), Node{Name: "cpu", Labels: map[string]string{zoneKey: "cpu-zone", "kubernetes.io/hostname": "cpu"}}),
			want:  "zone 2, rack 4, host 4 (1 other)",
		},
		"no accelerators at all": {
			nodes: with(fleet(zoneKey, "x"), func(_ int, n *Node) { n.Accelerated = false }), want: "zone 2, host 4",
		},
		"labels that are missing": {
			nodes: with(fleet(zoneKey, rackKey, "x"), func(i int, n *Node) {
				if i < 2 {
					delete(n.Labels, rackKey)
				} else if i == 7 {
					n.Labels["example.com/row"] = "1"
				}
			}),
			want: "zone 2, rack 3, host 6",
			notes: []string{
				"label example.com/row (named so) is left out: 1 of 8 nodes have it",
				"2 of 8 nodes lack label topology.trellis.dev/rack of level 'rack' (n000, n001): they are in the levels above only",
			},
		},
		"a placeholder and a clique in two racks": {
			nodes: with(fleet(rackKey, cliqueKey, "x"), func(i int, n *Node) {
				switch i {
				case 0:
					n.Labels[cliqueKey] = "None"
				case 7:
					n.Labels[rackKey] = "v0"
				}
			}),
			want: "rack 2, nvlink 6, host 8",
			notes: []string{
				`1 nodes have the value "none" of label nvidia.com/gpu.clique, which would be a nvlink of its own (n000)`,
				"1 of 5 values of label nvidia.com/gpu.clique lie in several domains of level 'rack' (v11 in v0 and v1), each part of which is a nvlink of its own",
			},
		},
		"the nodes show another order": {
			nodes: fleet("example.com/rack", "example.com/block", "x"), want: "rack 2, block 4, host 8",
			notes: []string{"label example.com/rack is placed above example.com/block, because each value of the latter lies in one of the former"},
		},
		"two labels of one level": {
			nodes: with(fleet("cloud.google.com/gce-topology-subblock", "x"), func(i int, n *Node) { n.Labels["example.com/leaf"] = fmt.Sprint(i % 2) }),
			want:  "subblock 2, host 4",
			notes: []string{"label example.com/leaf (named so) is left out: it is at the level of cloud.google.com/gce-topology-subblock but groups the nodes differently"},
		},
		"a hostname twice": {
			nodes: with(fleet(zoneKey, "x"), func(_ int, n *Node) { n.Labels["kubernetes.io/hostname"] = n.Labels[zoneKey] }), want: "zone 2, host 2",
			notes: []string{`hostname "v0" is on nodes n00, n01: correct the label of all but one`, `hostname "v1" is on nodes n10, n11: correct the label of all but one`},
		},
		"nothing known": {
			nodes: fleet("x"), want: "host 2",
			notes: []string{"no node has a label whose place in the network is known; label the nodes, as in: kubectl label node NODE topology.trellis.dev/rack=rack-0"},
		},
		"no nodes": {notes: []string{"no node has a label whose place in the network is known; label the nodes, as in: kubectl label node NODE topology.trellis.dev/rack=rack-0"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := Propose(tc.nodes)
			var levels []string
			for _, l := range p.Levels {
				levels = append(levels, fmt.Sprintf("%s %d", l.Domain, l.Domains))
			}
			got := strings.Join(levels, ", ")
			if p.Others > 0 {
				got += fmt.Sprintf(" (%d other)", p.Others)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("levels (-want +got)\n%s%s", diff, strings.Join(p.Notes, "\n"))
			}
			if diff := cmp.Diff(tc.notes, p.Notes); len(tc.notes) > 0 && diff != "" {
				t.Errorf("notes (-want +got)\n%s", diff)
			}
		})
	}
}

// TestProposalIsDeterministic: the order of nodes does not matter.
func TestProposalIsDeterministic(t *testing.T) {
	nodes := fleet("topology.kubernetes.io/zone", "network.topology.nvidia.com/leaf", "+example.com/rack", "x")
	want := Propose(nodes)
	for range 10 {
		nodes = append(nodes[3:], nodes[:3]...)
		if diff := cmp.Diff(want, Propose(nodes)); diff != "" {
			t.Fatal(diff)
		}
	}
}
