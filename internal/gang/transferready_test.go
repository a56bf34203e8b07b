// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// TestPairingCountsMissingGroups: a role whose scaling groups are still to be made is wanted, so that the other one waits for it.
func TestPairingCountsMissingGroups(t *testing.T) {
	prefill := inRole("prefill", 2, 1)
	dgd := &nvidiav1beta1.DynamoGraphDeployment{}
	dgd.Spec.Components = []nvidiav1beta1.ComponentSpec{
		{Name: "prefill", Type: "prefill", Replicas: ptr.To[int32](2)}, {Name: "decode", Type: "decode", Replicas: ptr.To[int32](3)},
		{Name: "decode-b", Type: "decode"}, {Name: "frontend", Type: "frontend"},
	}
	r := NewRequest(Observation{DGD: dgd, ClusterTopology: hall, Groups: []*trellisv1alpha1.ScalingGroup{prefill},
		Pods: []*corev1.Pod{newPod(prefill, 0, 0), newPod(prefill, 1, 0)}})
	if p := r.Graph.Pairing; p == nil || p.Prefill != 2 || p.Decode != 4 {
		t.Errorf("pairing %+v, want 2 prefill and 4 decode replicas", p)
	}
}

// TestPairWaitsForItsPods: a replica does not open a domain while the one that is to share it is still to be created.
func TestPairWaitsForItsPods(t *testing.T) {
	for name, test := range map[string]struct {
		required bool
		decode   int
		at       string
		want     int
	}{
		"its partner has no pods":              {required: true, want: 0},
		"both have their pods":                 {required: true, decode: 1, want: 2},
		"the domain is in use":                 {required: true, at: "a", want: 1},
		"another domain is in use":             {required: true, at: "b", want: 0},
		"it never waits where it is preferred": {want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			prefill, decode := inRole("prefill", 1, 1), inRole("decode", 1, 1)
			prefill.Spec.Topology.KVTransferRequired, decode.Spec.Topology.KVTransferRequired = test.required, test.required
			pods := []*corev1.Pod{newPod(prefill, 0, 0)}
			if test.at != "" {
				prefill.Spec.Replicas = 2
				pods = append(pods, newPod(prefill, 1, 0, "z", test.at))
			}
			for i := range test.decode {
				pods = append(pods, newPod(decode, int32(i), 0))
			}
			r := NewRequest(Observation{DGD: &nvidiav1beta1.DynamoGraphDeployment{}, ClusterTopology: hall,
				Groups: []*trellisv1alpha1.ScalingGroup{prefill, decode}, Pods: pods})
			planned := &placement.Result{Replicas: []placement.ReplicaResult{
				{Component: "decode", Domain: topology.Path{"z", "a"}}, {Component: "prefill", Domain: topology.Path{"z", "a"}}}}
			a := r.Answer(planned)
			if len(a.Placed) != test.want || len(a.Placed)+len(a.Waiting) != 2 {
				t.Errorf("placed %v, waiting %v; want %d placed", a.Placed, a.Waiting, test.want)
			}
		})
	}
}

// TestExcessOfSpanningReplicas: a replica over several domains shares a domain with no replica of the other role, so that it goes first.
func TestExcessOfSpanningReplicas(t *testing.T) {
	prefill, decode := inRole("prefill", 1, 1), inRole("decode", 1, 2)
	record := recordOf(map[string][]string{"prefill": {"z/a"}, "decode": {"z", "z/a"}})
	if got := Excess(decode, []*trellisv1alpha1.ScalingGroup{prefill, decode}, record, nil); got[0] <= got[1] {
		t.Errorf("order %v: the replica alongside prefill goes before the one over several racks", got)
	}
}

// TestExcessOfTheYoungest: of replicas in one domain the one that was made last goes first, whatever its ordinal.
func TestExcessOfTheYoungest(t *testing.T) {
	prefill, decode := inRole("prefill", 1, 1), inRole("decode", 1, 1)
	record := recordOf(map[string][]string{"prefill": {"z/a", "z/a"}, "decode": {"z/a", "z/a"}})
	if got := Excess(decode, []*trellisv1alpha1.ScalingGroup{prefill, decode}, record, map[int32]int64{0: 20, 1: 10}); got[0] <= got[1] {
		t.Errorf("order %v: replica 0 is younger", got)
	}
}
