// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package hierarchy

import (
	"fmt"
	"testing"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// BenchmarkFindOmitted is what a change of a node costs the controller of topologies: nodes with thirty labels of which six are broader levels.
func BenchmarkFindOmitted(b *testing.B) {
	levels := topology.Levels{{Domain: "zone", Key: "topology.kubernetes.io/zone"}, {Domain: "rack", Key: "example.com/rack"}, {Domain: "host", Key: "kubernetes.io/hostname"}}
	for _, nodes := range []int{1_000, 10_000} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			labels := make([]map[string]string, nodes)
			for i := range labels {
				labels[i] = map[string]string{
					"topology.kubernetes.io/zone": fmt.Sprint(i / 4000), "example.com/rack": fmt.Sprint(i / 16), "kubernetes.io/hostname": fmt.Sprint("n", i),
					"topology.kubernetes.io/region": "r", "failure-domain.beta.kubernetes.io/zone": fmt.Sprint(i / 4000), "failure-domain.beta.kubernetes.io/region": "r",
					"example.com/block": fmt.Sprint(i / 400), "example.com/row": fmt.Sprint(i / 100), "example.com/spine": fmt.Sprint(i / 400),
				}
				for k := range 21 {
					labels[i][fmt.Sprint("feature.node.kubernetes.io/cpu-", k)] = "true"
				}
			}
			for b.Loop() {
				FindOmitted(labels, levels)
			}
		})
	}
}
