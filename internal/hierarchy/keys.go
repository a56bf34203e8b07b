// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package hierarchy

import (
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Rank orders levels from the broadest to the narrowest; the broader level has the smaller rank.
type Rank int

// Ranks of levels. Unknown is the rank of a key whose place in the hierarchy is not known.
const (
	Unknown Rank = 0
	region  Rank = 10 * iota
	zone
	building
	fabric
	superblock
	block
	subblock
	rack
	clique
	host
	machine = host - 1 // the physical machine of a virtual host
)

// Key is a node label key whose place in a hierarchy is known.
type Key struct {
	Name string
	// Domain is the suggested name of a level with this key.
	Domain string
	// Rank is the place of the key among other keys.
	Rank Rank
	// Unique: a value identifies one domain in the whole cluster. Values of other keys may repeat, for example rack-1 in two zones.
	Unique bool
	// From is the product that writes the label.
	From string
}

// known lists the known keys. Where several keys group the nodes identically, Propose uses the first of them in this list.
var known = []Key{
	{corev1.LabelTopologyZone, "zone", zone, true, "Kubernetes"},
	{corev1.LabelHostname, "host", host, true, "Kubernetes"},
	{"nvidia.com/gpu.clique", "nvlink", clique, true, "NVIDIA GPU Operator"},
	{"ds.coreweave.com/nvlink.domain", "rack", rack, true, "CoreWeave"},
	{"topology.k8s.aws/ultraserver-id", "ultraserver", rack, true, "Amazon EKS"},
	{"accelerator.topograph.run/sub-domain", "nvlink-partition", clique + 1, true, "Topograph"},
	{"accelerator.topograph.run/domain", "accelerator", clique, true, "Topograph"},
	{"network.topology.nvidia.com/accelerator", "accelerator", clique, true, "Topograph"},
	{"cloud.google.com/gce-topology-block", "block", block, true, "Google GKE"},
	{"cloud.google.com/gce-topology-subblock", "subblock", subblock, true, "Google GKE"},
	{"cloud.google.com/gce-topology-host", "machine", machine, true, "Google GKE"},
	{"topology.k8s.aws/network-node-layer-1", "network-1", superblock, true, "Amazon EKS"},
	{"topology.k8s.aws/network-node-layer-2", "network-2", block, true, "Amazon EKS"},
	{"topology.k8s.aws/network-node-layer-3", "network-3", subblock, true, "Amazon EKS"},
	{"topology.k8s.aws/network-node-layer-4", "network-4", subblock + 1, true, "Amazon EKS"},
	{"kubernetes.azure.com/ppg", "placement-group", block, true, "Azure AKS"},
	{"oci.oraclecloud.com/rdma.hpc_island_id", "island", superblock, true, "Oracle OKE"},
	{"oci.oraclecloud.com/rdma.network_block_id", "block", block, true, "Oracle OKE"},
	{"oci.oraclecloud.com/rdma.local_block_id", "local-block", subblock, true, "Oracle OKE"},
	{"oci.oraclecloud.com/rdma.host_id", "machine", machine, true, "Oracle OKE"},
	{"backend.coreweave.cloud/fabric", "fabric", fabric, true, "CoreWeave"},
	{"ib.coreweave.cloud/fabric", "fabric", fabric, true, "CoreWeave"},
	{"ib.coreweave.cloud/superpod", "superpod", superblock, false, "CoreWeave"},
	{"backend.coreweave.cloud/leafgroup", "leafgroup", block, false, "CoreWeave"},
	{"ib.coreweave.cloud/leafgroup", "leafgroup", block, false, "CoreWeave"},
	{"node.coreweave.cloud/rack", "rack", rack, false, "CoreWeave"},
	{"network.topology.nvidia.com/datacenter", "datacenter", building, true, "Topograph"},
	{"network.topology.nvidia.com/core", "core", superblock, true, "Topograph"},
	{"network.topology.nvidia.com/spine", "spine", block, true, "Topograph"},
	{"network.topology.nvidia.com/block", "block", block + 1, true, "Topograph"},
	{"network.topology.nvidia.com/leaf", "leaf", subblock, true, "Topograph"},
	{corev1.LabelTopologyRegion, "region", region, true, "Kubernetes"},
	{corev1.LabelFailureDomainBetaZone, "zone", zone, true, "Kubernetes, before 1.17"},
	{corev1.LabelFailureDomainBetaRegion, "region", region, true, "Kubernetes, before 1.17"},
}

// tierPrefixes are the prefixes of the labels with which Topograph numbers the tiers of a fabric; tier 0 is next to the node.
var tierPrefixes = []string{"fabric.topograph.run/tier-", "network.topology.nvidia.com/tier-"}

// lookTier returns the key of a numbered tier. The three lowest tiers have names.
func lookTier(name string) (Key, bool) {
	for _, prefix := range tierPrefixes {
		number, is := strings.CutPrefix(name, prefix)
		tier, err := strconv.ParseUint(number, 10, 8)
		if !is || err != nil {
			continue
		}
		key := Key{Name: name, Domain: "tier-" + number, Rank: max(superblock+2-Rank(tier), fabric+2), Unique: true, From: "Topograph"}
		switch tier {
		case 0:
			key.Domain, key.Rank = "leaf", subblock
		case 1:
			key.Domain, key.Rank = "spine", block
		case 2:
			key.Domain = "core"
		}
		return key, true
	}
	return Key{}, false
}

// words maps the last parts of custom keys, such as rack in topology.example.com/rack, to ranks.
var words = map[string]Rank{
	"region": region, "zone": zone, "availability-zone": zone, "datacenter": building, "building": building, "room": building + 1,
	"hall": building + 1, "fabric": fabric, "row": fabric + 1, "superpod": superblock, "superblock": superblock, "island": superblock,
	"core": superblock, "pod": block - 1, "block": block, "spine": block, "leafgroup": subblock - 1, "subblock": subblock, "leaf": subblock,
	"switch": subblock, "rack": rack, "chassis": rack + 1, "nvlink": clique, "nvlink-domain": clique, "clique": clique, "host": host,
}

// Look returns the known properties of a label key; false for an unknown key.
func Look(name string) (Key, bool) {
	for _, k := range known {
		if k.Name == name {
			return k, true
		}
	}
	if key, ok := lookTier(name); ok {
		return key, true
	}
	word := name[strings.LastIndexByte(name, '/')+1:]
	if rank := words[word]; rank != Unknown {
		return Key{Name: name, Domain: word, Rank: rank, From: "named so"}, true
	}
	return Key{Name: name}, false
}

// preference returns the index of a key in the list of known keys. Numbered tiers come after the known keys, and custom keys come last.
func preference(name string) int {
	for i, k := range known {
		if k.Name == name {
			return i
		}
	}
	if _, ok := lookTier(name); ok {
		return len(known)
	}
	return len(known) + 1
}
