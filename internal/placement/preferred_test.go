// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// Of hosts that hold a pod equally well, it goes to the one that it prefers. Preferences never outweigh a tighter fit.
func TestPreferredHostsBreakTies(t *testing.T) {
	prefers := func(value string) *topology.Shape {
		pod := podOf(map[string]string{gpu: "4"})
		pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{
			{Weight: 1, Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{
				Key: "disk", Operator: corev1.NodeSelectorOpIn, Values: []string{value}}}}},
		}}}
		return topology.ShapeOf(pod)
	}
	for name, tc := range map[string]struct {
		levels topology.Levels
		nodes  []string
		shape  *topology.Shape
		pods   int
		want   []string
	}{
		"no preference":             {levels("rack"), []string{"a r 8", "b r 8", "c r 8"}, gpus(4), 1, []string{"w-0 r: b"}},
		"a soft taint, two pods":    {levels("rack"), []string{"a r 8", "b r 8", "c r 8"}, gpus(8), 2, []string{"w-0 r: b c"}},
		"an affinity":               {levels("rack"), []string{"a r 8", "b r 8", "c r 8"}, prefers("c"), 1, []string{"w-0 r: c"}},
		"the taint counts first":    {levels("rack"), []string{"a r 8", "b r 8", "c r 8"}, prefers("a"), 1, []string{"w-0 r: b"}},
		"a tighter fit counts more": {levels("rack"), []string{"a r 4", "b r 8", "c r 8"}, prefers("c"), 1, []string{"w-0 r: a"}},
		"hosts are a level":         {levels("rack", "host"), []string{"a r/a 8", "b r/b 8", "c r/c 8"}, prefers("c"), 1, []string{"w-0 r: c"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := topology.NewCluster()
			for _, line := range tc.nodes {
				n := nodeOf(tc.levels, line)
				n.Labels["disk"] = n.Name
				if n.Name == "a" {
					n.Spec.Taints = []corev1.Taint{{Key: "old", Effect: corev1.TaintEffectPreferNoSchedule}}
				}
				c.SetNode(n)
			}
			r := PlanGraph(c, Demand{Levels: tc.levels, Required: none, Preferred: none,
				Components: []Component{componentOf("w", 0, none, 1, tc.pods, tc.shape)}}, Options{})
			if diff := cmp.Diff(tc.want, summary(r)); diff != "" {
				t.Errorf("placed (-want +got):\n%s", diff)
			}
		})
	}
}
