// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package hierarchy

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/trellis-k8s/trellis/internal/topology"
	"github.com/trellis-k8s/trellis/test/testutil/simulated"
)

func TestFindOmitted(t *testing.T) {
	zone := topology.Level{Domain: "zone", Key: "topology.kubernetes.io/zone"}
	block := topology.Level{Domain: "block", Key: "topology.trellis.dev/block"}
	rack := topology.Level{Domain: "rack", Key: "topology.trellis.dev/rack"}
	host := topology.Level{Domain: "host", Key: "kubernetes.io/hostname"}
	clique := topology.Level{Domain: "nvlink", Key: "nvidia.com/gpu.clique"}
	own := topology.Level{Domain: "rack", Key: "example.com/tier-2"}
	var demo []map[string]string
	for _, node := range simulated.DefaultShape.Nodes() {
		demo = append(demo, node.Labels)
	}
	grid := []map[string]string{
		{zone.Key: "a", block.Key: "1", own.Key: "1"}, {zone.Key: "a", block.Key: "2", own.Key: "1"}, {zone.Key: "a", block.Key: "3", own.Key: "2"},
	}
	for name, tc := range map[string]struct {
		labels []map[string]string
		levels topology.Levels
		want   []string
	}{
		"all levels": {labels: demo, levels: topology.Levels{zone, block, rack, host}},
		"no block": {labels: demo, levels: topology.Levels{zone, rack, host}, want: []string{
			"rack zone-0/rack-0 covers 2 places: its nodes have 2 values of label topology.trellis.dev/block (block-0, block-1), as in 6 of 6 domains; make that label a level above 'rack'",
		}},
		"no zone": {labels: demo, levels: topology.Levels{block, rack, host}, want: []string{
			"block block-0 covers 2 places: its nodes have 2 values of label topology.kubernetes.io/zone (zone-0, zone-1), as in 2 of 2 domains; make that label a level above 'block'",
			"rack block-0/rack-0 covers 2 places: its nodes have 2 values of label topology.kubernetes.io/zone (zone-0, zone-1), as in 6 of 6 domains; make that label a level above 'rack'",
		}},
		"a narrower level may be omitted": {labels: demo, levels: topology.Levels{zone, block, host}},
		"a level known by its domain": {labels: grid, levels: topology.Levels{zone, own}, want: []string{
			"rack a/1 covers 2 places: its nodes have 2 values of label topology.trellis.dev/block (1, 2), as in 1 of 2 domains; make that label a level above 'rack'",
		}},
		"values that are unique": {labels: []map[string]string{
			{clique.Key: "uuid.1", "network.topology.nvidia.com/leaf": "s1"}, {clique.Key: "uuid.1", "network.topology.nvidia.com/leaf": "s2"},
		}, levels: topology.Levels{clique}},
		"labels that some nodes lack": {labels: []map[string]string{{rack.Key: "1"}, {rack.Key: "1", block.Key: "1"}, {}}, levels: topology.Levels{rack}},
		"no nodes":                    {levels: topology.Levels{zone}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, o := range FindOmitted(tc.labels, tc.levels) {
				got = append(got, o.String())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}
