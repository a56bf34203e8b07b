// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"testing"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// A topology of the GPU pool, and a frontend that selects the CPU pool of the same zone: the refusal names the selector that leaves those nodes out, and
// what to do. Without the selector the graph is placed.
func TestNodesThatTheTopologyLeavesOut(t *testing.T) {
	ls := levels("zone")
	shape := func(pool string, requests map[string]string) *topology.Shape {
		pod := podOf(requests)
		pod.Spec.NodeSelector = map[string]string{"pool": pool}
		return topology.ShapeOf(pod)
	}
	nodes := []string{"g0 a 8 label=pool=gpu", "g1 b 8 label=pool=gpu", "c0 a 0 label=pool=cpu", "c1 b 0 label=pool=cpu"}
	const excluded = "nodeSelector pool=gpu of the topology excludes 2 nodes that suit such pods: use a topology without it; "
	for name, tc := range map[string]struct {
		selector    map[string]string
		pool        string
		required    int
		want, short string
	}{
		"a graph in one zone": {selector: map[string]string{"pool": "gpu"}, pool: "cpu", required: 0,
			want: excluded + "needs 1 pod x 2 cpu + 1 pod x 8 nvidia.com/gpu in one zone; a holds 1 of 2; 1 other zone holds no more; " +
				"there Frontend-0 needs 1 pod x 2 cpu in a; it holds 0 of 1 (1 host node selector mismatch)",
			short: excluded + "needs 1 pod x 2 cpu + 1 pod x 8 nvidia.com/gpu in one zone; a holds 1 of 2"},
		"no graph domain": {selector: map[string]string{"pool": "gpu"}, pool: "cpu", required: none,
			want:  excluded + "needs 1 pod x 2 cpu in the cluster; it holds 0 of 1 (2 hosts node selector mismatch)",
			short: excluded + "needs 1 pod x 2 cpu in the cluster; it holds 0 of 1"},
		"nothing suits": {selector: map[string]string{"pool": "gpu"}, pool: "tpu", required: none,
			want:  "needs 1 pod x 2 cpu in the cluster; it holds 0 of 1 (2 hosts node selector mismatch)",
			short: "needs 1 pod x 2 cpu in the cluster; it holds 0 of 1 (2 hosts node selector mismatch)"},
		"a topology of all nodes": {pool: "cpu", required: 0},
	} {
		t.Run(name, func(t *testing.T) {
			g := Demand{Levels: ls, NodeSelector: tc.selector, Required: tc.required, Preferred: none, Components: []Component{
				componentOf("Frontend", none, none, 1, 1, shape(tc.pool, map[string]string{"cpu": "2"})), componentOf("Worker", none, none, 1, 1, shape("gpu", map[string]string{gpu: "8"})),
			}}
			r := PlanGraph(clusterOf(ls, nodes...), g, Options{})
			why := r.Replicas[0].Refusal
			if why == nil {
				if tc.want != "" {
					t.Fatal("placed")
				}
				return
			}
			if got := why.Message(); got != tc.want {
				t.Errorf("message\n%s\nwant\n%s", got, tc.want)
			}
			if got := why.Short(180); got != tc.short {
				t.Errorf("short\n%s\nwant\n%s", got, tc.short)
			}
		})
	}
}
