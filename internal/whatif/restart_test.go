// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package whatif

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/render"
)

// A Parallel restart is planned with the graph's own pods gone. It helps only where one domain then holds every replica, and not where one
// has capacity for the replica that waits.
func TestRestart(t *testing.T) {
	runs := func(t *testing.T, w *World, replicas int32) {
		w.exist(t, deployment("g", replicas), func(pod *corev1.Pod) { released("a", "r"+pod.Labels[render.LabelReplica], true)(pod) })
	}
	for name, tc := range map[string]struct {
		prepare func(t *testing.T, w *World) *nvidiav1beta1.DynamoGraphDeployment
		waits   string
		want    string
	}{
		"another zone holds all of it": {func(t *testing.T, w *World) *nvidiav1beta1.DynamoGraphDeployment {
			runs(t, w, 1)
			w.occupy("a-r1-0", 8)
			return deployment("g", 2)
		}, "b has capacity, but running pods anchor the graph in a (see kubectl trellis explain)", "b holds all 2 packed replicas"},
		"another zone has capacity for the replica, and not for all of them": {func(t *testing.T, w *World) *nvidiav1beta1.DynamoGraphDeployment {
			runs(t, w, 2)
			return deployment("g", 3)
		}, "b has capacity, but running pods anchor the graph in a (see kubectl trellis explain)", "no zone holds all 3 packed replicas (b: 2)"},
		"its own zone is fragmented, also without its pods": {func(t *testing.T, w *World) *nvidiav1beta1.DynamoGraphDeployment {
			w.exist(t, deployment("g", 1), func(pod *corev1.Pod) {
				released("a", "r0", true)(pod)
				pod.Spec.NodeName = map[string]string{"0": "a-r0-0", "1": "a-r0-2"}[pod.Labels[render.LabelPodIndex]]
			})
			w.occupy("a-r0-1", 4)
			w.occupy("a-r0-3", 4)
			for _, n := range w.Nodes {
				if !strings.HasPrefix(n.Name, "a-r0-") {
					n.Spec.Unschedulable = true
				}
			}
			return deployment("g", 2)
		}, "needs 2 pods x 8 nvidia.com/gpu in one rack inside a", "no zone holds all 2 packed replicas (a: 1)"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(2)
			if strings.HasPrefix(name, "its own zone") {
				w = newWorld(4)
			}
			dgd := tc.prepare(t, &w)
			p := NewPlanner(w)
			g, err := p.Plan(dgd)
			if err != nil {
				t.Fatal(err)
			}
			if why := g.Replicas[len(g.Replicas)-1].Reason; why == nil || !strings.HasPrefix(why.Message, tc.waits) {
				t.Fatalf("the last replica waits for %+v, want %s", why, tc.waits)
			}
			for range 2 { // a question leaves nothing for the next one
				got, planned := p.Restart(&g)
				if !planned || got.Text() != tc.want {
					t.Errorf("%q (planned: %t), want %q", got.Text(), planned, tc.want)
				}
			}
		})
	}
}
