// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"bytes"
	_ "embed"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Karpenter is the name of the peer that adds nodes. No provider needs it, since it does not place pods.
const Karpenter = "Karpenter"

// KarpenterProgram is the name of Karpenter's program, which includes its KWOK provider.
const KarpenterProgram = "karpenter"

// karpenterModule is the Go module of Karpenter, which also contains its custom resource definitions.
const karpenterModule = "sigs.k8s.io/karpenter@v1.15.0"

// The objects for Karpenter: all rights and a NodePool; and the one instance type that it can add.
var (
	//go:embed karpenter/objects.yaml
	karpenterObjects []byte
	//go:embed karpenter/instance_types.json
	karpenterTypes string
)

var karpenterPeer = peer{
	name: Karpenter, namespace: "karpenter", module: karpenterModule, main: "./kwok",
	buildEnv: []string{"GOFLAGS=-mod=mod -modcacherw=false", "GOTOOLCHAIN=auto"}, // Karpenter needs a newer Go than this project
	crds:     []string{"pkg/apis/crds", "kwok/apis/crds"}, own: karpenterObjects,
	rights: []string{"capacity"}, operator: []string{"--capacity-requests=Placeholders"},
	programs: []program{{
		name: KarpenterProgram, account: "karpenter", ports: []int{59081, 59080}, config: karpenterTypes,
		configVariable: "INSTANCE_TYPES_FILE_PATH",
		env: []string{
			"HEALTH_PROBE_PORT=59081", "METRICS_PORT=59080", "DISABLE_LEADER_ELECTION=true", "BATCH_MAX_DURATION=5s", "SYSTEM_NAMESPACE=karpenter",
		},
	}},
}

// ownObjects are the objects of a peer without a chart.
func (p peer) ownObjects() ([]*unstructured.Unstructured, error) {
	return decode(bytes.NewReader(p.own), "Namespace", "ServiceAccount", "ClusterRoleBinding", "NodePool", "KWOKNodeClass")
}

// OperatorFlags are the flags of the operator that some peers need.
func OperatorFlags(names ...string) []string {
	var out []string
	for _, p := range all {
		for _, name := range names {
			if p.name == name {
				out = append(out, p.operator...)
			}
		}
	}
	return out
}
