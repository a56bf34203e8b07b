// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/leaving"
	"github.com/trellis-k8s/trellis/internal/repack"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// TestReplacing: a request to move that nobody has repeated for [leaving.EvictionCounts] is over, e.g. that of a drain which was interrupted.
func TestReplacing(t *testing.T) {
	now := time.Now()
	for name, tc := range map[string]struct {
		request leaving.Eviction
		want    bool
	}{
		"of a drain":            {leaving.Eviction{At: now.Add(-time.Minute), WithNode: true}, true},
		"of a drain that ended": {leaving.Eviction{At: now.Add(-leaving.EvictionCounts), WithNode: true}, false},
		"of a single pod":       {leaving.Eviction{At: now.Add(-time.Hour)}, true},
		"to free a place":       {leaving.Eviction{At: now, For: "ns/big"}, false},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{leaving.AnnotationEviction: tc.request.String()}}}
		if got := Replacing(&trellisv1alpha1.ScalingGroup{}, []*corev1.Pod{{}, pod}, now); got != tc.want {
			t.Errorf("%s: replaces: %t", name, got)
		}
	}
}

// TestMovesKeepPartners: a replica that a transfer policy places moves inside its domain; one of a component without a role moves anywhere.
func TestMovesKeepPartners(t *testing.T) {
	for role, want := range map[string]topology.Path{"decode": {"z", "a"}, "prefill": {"z", "a"}, "other": nil} {
		sg := inRole(role, 1, 2)
		sg.Spec.Topology.KVTransferRequired = false
		m := &Movable{
			Cluster: topology.NewCluster(), Admit: func(pod *corev1.Pod) *corev1.Pod { return pod }, Priority: topology.PriorityOf,
			GPUs: func(*corev1.Pod) (int64, bool) { return 1, true },
		}
		var pods []*corev1.Pod
		for i, node := range []string{"a1", "a2"} {
			m.Cluster.SetNode(host(node, "a", 8))
			pod := newPod(sg, 0, int32(i), "z", "a")
			pod.Spec.NodeName = node
			m.Cluster.SetPod(pod)
			pods = append(pods, pod)
		}
		got := m.Of(sg, pods, &repack.Place{Cluster: m.Cluster, Levels: LevelsOf(sg.Spec.Topology)})
		if len(got) != 1 || !got[0].Group.Within.Equal(want) {
			t.Errorf("%s: %+v, want one replica within %v", role, got, want)
		}
	}
}
