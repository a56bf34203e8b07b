// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// spreadOver is a group of replicas of two pods, in one rack each, that are spread over zones.
func spreadOver(replicas int32) *trellisv1alpha1.ScalingGroup {
	sg := newGroup("work", replicas, 2, frozen("", "rack"))
	sg.Spec.Topology.SpreadDomain = "zone"
	return sg
}

// TestSpreadRequest: replicas count where they are pinned, unless they are recreated or still to be placed.
func TestSpreadRequest(t *testing.T) {
	sg := spreadOver(4)
	leaving := newPod(sg, 1, 0, "b", "s")
	leaving.DeletionTimestamp = ptr.To(metav1.Now())
	o := Observation{
		DGD:    &nvidiav1beta1.DynamoGraphDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "g"}},
		Groups: []*trellisv1alpha1.ScalingGroup{sg}, ClusterTopology: hall,
		Pods: []*corev1.Pod{
			newPod(sg, 0, 0, "a", "r"), newPod(sg, 0, 1, "a", "r"), // placed
			leaving, newPod(sg, 1, 1, "b", "s"), // recreated
			newPod(sg, 2, 0, "c", "t"), newPod(sg, 2, 1), // released in part
			newPod(sg, 3, 0), newPod(sg, 3, 1), // waits
		},
	}
	r := NewRequest(o)
	want := &placement.Spread{Required: 0, Preferred: topology.NoLevel, At: []topology.Path{{"a", "r"}}}
	if diff := cmp.Diff(want, r.Graph.Components[0].Spread); diff != "" {
		t.Error(diff)
	}
}

// TestSpreadLevelLost: a replica waits for a level that is gone from the topology, and the rest of one that is released in part follows it.
func TestSpreadLevelLost(t *testing.T) {
	sg := spreadOver(2)
	without := hall.DeepCopy()
	without.Spec.Levels = without.Spec.Levels[1:]
	o := Observation{
		DGD:    &nvidiav1beta1.DynamoGraphDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "g"}},
		Groups: []*trellisv1alpha1.ScalingGroup{sg}, ClusterTopology: without,
		Pods: []*corev1.Pod{newPod(sg, 0, 0, "a", "r"), newPod(sg, 0, 1), newPod(sg, 1, 0), newPod(sg, 1, 1)},
	}
	want := []string{
		`graph anchor="" creating=false placed 0 of 2`,
		`work required=1 anchor="" placed=0 waits(0 pods=1 anchor="a/r" hint="")`,
		"blocked work-1 LevelGone",
	}
	if diff := cmp.Diff(want, lines(NewRequest(o))); diff != "" {
		t.Error(diff)
	}
}

// TestPlacesOfComponents: each component is pinned by the levels and to the pool of its own topology.
func TestPlacesOfComponents(t *testing.T) {
	one, other := newGroup("decode", 1, 2, frozen("", "")), newGroup("prefill", 1, 2, frozen("", ""))
	for sg, pool := range map[*trellisv1alpha1.ScalingGroup]string{one: "h", other: "gb"} {
		sg.Spec.Topology.Automatic, sg.Spec.Topology.NodeSelector = true, map[string]string{"pool": pool}
	}
	one.Spec.Topology.PreferredPackDomain = "rack"
	other.Spec.Topology.ClusterTopology, other.Spec.Topology.PreferredPackDomain = "q", "row"
	other.Spec.Topology.Levels = []trellisv1alpha1.ResolvedLevel{{Domain: "row", Key: "row"}}
	c := NewCluster()
	h := host("h1", "a", 8)
	h.Labels["pool"] = "h"
	c.SetNode(h)
	gb := host("gb1", "", 8)
	gb.Labels = map[string]string{"pool": "gb", "row": "r1", corev1.LabelHostname: "gb1"}
	c.SetNode(gb)
	o := Observation{
		DGD:    &nvidiav1beta1.DynamoGraphDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "g"}},
		Groups: []*trellisv1alpha1.ScalingGroup{one, other}, ClusterTopology: hall,
		Pods: []*corev1.Pod{newPod(one, 0, 0), newPod(one, 0, 1), newPod(other, 0, 0), newPod(other, 0, 1)},
	}
	got := map[string]map[string]string{}
	for _, release := range releasesOf(c, o) {
		got[release.Pod.Name] = release.Pin.Labels
	}
	inH, inGB := map[string]string{"pool": "h", "z": "z", "r": "a"}, map[string]string{"pool": "gb", "row": "r1"}
	want := map[string]map[string]string{"g-decode-0-0": inH, "g-decode-0-1": inH, "g-prefill-0-0": inGB, "g-prefill-0-1": inGB}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
