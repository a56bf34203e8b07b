// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/trellis-k8s/trellis/internal/bools"
)

// TestPairingBaseGangOfGenerations: the first replicas of a base gang that are of several generations of workers do not open a domain
// together where the pairing is required, neither in free capacity nor in that of pods of lower priority.
func TestPairingBaseGangOfGenerations(t *testing.T) {
	ls := levels("zone", "rack")
	apart := []string{"a1 z/r1 8", "a2 z/r1 8", "b1 z/r2 8", "b2 z/r2 8"}
	for name, c := range map[string]struct {
		nodes           []string
		prefill, decode []string // the generation of each replica
		required        bool
		onlyFree        bool // not by preemption
		want            []string
		why             string
	}{
		"of one": {nodes: apart[:2], prefill: []string{"new"}, decode: []string{"new"}, required: true,
			want: []string{"decode-0 z/r1: a1", "prefill-0 z/r1: a2"}},
		"of two": {nodes: apart, prefill: []string{"old"}, decode: []string{"new"}, required: true,
			want: []string{"decode-0 NoPartner", "frontend-0 BaseGangWaits", "prefill-0 NoPartner"},
			why:  "needs a prefill replica in its rack; none is placed, and none is ready to be placed with it"},
		"of two, preferred": {nodes: apart[:2], prefill: []string{"old"}, decode: []string{"new"}, onlyFree: true,
			want: []string{"decode-0 z/r1: a1", "prefill-0 z/r1: a2"}},
		"partners after the first replicas": {nodes: apart, prefill: []string{"old", "new"}, decode: []string{"new", "old"}, required: true,
			onlyFree: true,
			want:     []string{"decode-0 z/r1: a1", "decode-1 z/r2: b1", "prefill-0 z/r2: b2", "prefill-1 z/r1: a2"}},
		"no room for these partners": {nodes: apart[:2], prefill: []string{"old", "new"}, decode: []string{"new", "old"}, required: true,
			want: []string{"decode-0 InsufficientCapacity", "decode-1 BaseGangWaits", "prefill-0 InsufficientCapacity", "prefill-1 BaseGangWaits"}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, preempts := range []bool{false, true}[:2-bools.Int(c.onlyFree)] {
				g := Demand{Levels: ls, Required: 0, Preferred: none, Preempts: preempts, Components: []Component{
					componentOf("prefill", none, none, len(c.prefill), 1, gpus(8)), componentOf("decode", none, none, len(c.decode), 1, gpus(8))}}
				for i, generation := range c.prefill {
					g.Components[0].Waiting[i].Generation = generation
				}
				for i, generation := range c.decode {
					g.Components[1].Waiting[i].Generation = generation
				}
				if c.why != "" {
					g.Components = append(g.Components, componentOf("frontend", none, none, 1, 1, cpus(1)))
				}
				inRoles(&g, 1, c.required)
				cluster := clusterOf(ls, c.nodes...)
				if preempts {
					for _, node := range c.nodes {
						n := nodeOf(ls, node)
						low := podOf(map[string]string{gpu: "8"})
						priority := int32(-10)
						low.Name, low.Spec.NodeName, low.Spec.Priority = "low-"+n.Name, n.Name, &priority
						cluster.SetPod(low)
					}
				}
				r := PlanGraph(cluster, g, Options{})
				if diff := cmp.Diff(c.want, summary(r)); diff != "" {
					t.Errorf("preempts %v: placed:\n%s", preempts, diff)
				}
				if messages := refusals(r); c.why != "" && (len(messages) == 0 || messages[0] != c.why) {
					t.Errorf("preempts %v: messages %q,\nwant %q", preempts, messages, c.why)
				}
			}
		})
	}
}
