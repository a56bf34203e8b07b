// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/assignment"
	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// inRole is a group of a role that a policy places in racks.
func inRole(role string, replicas, size int32) *trellisv1alpha1.ScalingGroup {
	t := frozen("", "")
	t.KVTransferDomain, t.KVTransferRequired = "rack", true
	sg := newGroup(role, replicas, size, t)
	for i := range sg.Spec.Roles {
		sg.Spec.Roles[i].Template.Labels = map[string]string{
			render.LabelComponentType: "worker", render.LabelSubComponentType: role, render.LabelWorkerHash: "new",
		}
	}
	return sg
}

// TestPairingOfARequest: the planner is told the roles, how many replicas are wanted, where those are that stay, and the generation of each.
func TestPairingOfARequest(t *testing.T) {
	prefill, decode := inRole("prefill", 2, 1), inRole("decode", 3, 1)
	other := newGroup("frontend", 1, 1, nil)
	pods := []*corev1.Pod{newPod(prefill, 0, 0, "z", "a"), newPod(decode, 0, 0, "z", "b"), newPod(decode, 1, 0)}
	pods[1].Labels[render.LabelWorkerHash] = "old"
	r := NewRequest(Observation{DGD: &nvidiav1beta1.DynamoGraphDeployment{}, ClusterTopology: hall,
		Groups: []*trellisv1alpha1.ScalingGroup{prefill, decode, other}, Pods: pods})
	want := &placement.Pairing{Level: 1, Required: true, Prefill: 2, Decode: 3, At: []placement.Paired{
		{Role: placement.Decode, Generation: "old", Domain: topology.Path{"z", "b"}},
		{Role: placement.Prefill, Generation: "new", Domain: topology.Path{"z", "a"}},
	}}
	if diff := cmp.Diff(want, r.Graph.Pairing); diff != "" {
		t.Errorf("pairing:\n%s", diff)
	}
	for _, s := range r.Graph.Components {
		if s.Role.String() != s.Name {
			t.Errorf("%s has the role %q", s.Name, s.Role)
		}
		for _, w := range s.Waiting {
			if w.Generation != "new" {
				t.Errorf("%s-%d is of the generation %q, want that of its template", s.Name, w.Ordinal, w.Generation)
			}
		}
	}
}

// TestTransferOf counts shared domains by the labels that nodes have now.
func TestTransferOf(t *testing.T) {
	prefill, decode := inRole("prefill", 2, 1), inRole("decode", 2, 2)
	bound := func(sg *trellisv1alpha1.ScalingGroup, ordinal, index int32, node string) *corev1.Pod {
		pod := newPod(sg, ordinal, index, "z", "elsewhere")
		pod.Spec.NodeName = node
		return pod
	}
	nodes := map[string]map[string]string{"a1": {"z": "z", "r": "a"}, "a2": {"z": "z", "r": "a"}, "b1": {"z": "z", "r": "b"}, "c1": {"z": "z", "r": "c"}}
	pods := []*corev1.Pod{
		bound(prefill, 0, 0, "a1"), bound(prefill, 1, 0, "c1"),
		bound(decode, 0, 0, "a1"), bound(decode, 0, 1, "a2"),
		bound(decode, 1, 0, "a2"), bound(decode, 1, 1, "b1"),
	}
	groups := []*trellisv1alpha1.ScalingGroup{prefill, decode}
	got := TransferOf(groups, pods, func(node string) map[string]string { return nodes[node] })
	if got.Text() != "1 of 2 decode replicas have prefill in their rack, 1 of 2 prefill replicas have decode" {
		t.Error(got.Text())
	}
	want := "0 prefill and 1 decode replicas are in no rack; 1 prefill replica in z/c has no decode in its rack"
	if got.AloneText() != want {
		t.Errorf("alone: %q, want %q", got.AloneText(), want)
	}
	if percent, known := got.Decode.Percent(); percent != 50 || !known {
		t.Errorf("%d %% of decode, %v", percent, known)
	}
	pods[0].Labels[render.LabelWorkerHash] = "old"
	if got := TransferOf(groups, pods, func(node string) map[string]string { return nodes[node] }); got.Decode.Paired != 0 {
		t.Errorf("replicas of two generations are partners: %s", got.Text())
	}
	if got := TransferOf([]*trellisv1alpha1.ScalingGroup{newGroup("work", 1, 1, frozen("", "rack"))}, nil, nil); got != nil {
		t.Errorf("without a policy: %+v", got)
	}
}

// recordOf is the record of a graph with bound replicas, by component in order of their ordinals.
func recordOf(domains map[string][]string) *assignment.Record {
	r := (&assignment.Record{}).Clone()
	for component, of := range domains {
		for ordinal, domain := range of {
			r.Bound[Key{Component: component, Ordinal: ordinal}] = assignment.Place{Attempt: 1, Domain: topology.ParsePath(domain)}
		}
	}
	return r
}

// TestExcess: of several replicas that are scaled in, each leaves the least imbalance.
func TestExcess(t *testing.T) {
	prefill, decode := inRole("prefill", 2, 1), inRole("decode", 2, 1)
	record := recordOf(map[string][]string{"prefill": {"z/a", "z/b"}, "decode": {"z/a", "z/a", "z/a", "z/b", "z/c"}})
	got := Excess(decode, []*trellisv1alpha1.ScalingGroup{prefill, decode}, record, nil)
	// In a there are two more than prefill, in c one; of those in a the youngest goes first.
	want := map[int32]int{2: 5, 4: 4, 1: 3, 3: 2, 0: 1}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("order:\n%s", diff)
	}
}

// TestExcessOfBothRoles: two roles that are scaled in at once leave the same domain, whatever the ordinals and ages of their replicas.
func TestExcessOfBothRoles(t *testing.T) {
	prefill, decode := inRole("prefill", 1, 1), inRole("decode", 1, 1)
	record := recordOf(map[string][]string{"prefill": {"z/a", "z/b"}, "decode": {"z/b", "z/a"}})
	groups := []*trellisv1alpha1.ScalingGroup{prefill, decode}
	created := map[int32]int64{0: 10, 1: 20}
	goes := func(sg *trellisv1alpha1.ScalingGroup) string {
		order := Excess(sg, groups, record, created)
		for key, place := range record.Bound {
			if key.Component == sg.Spec.Component && order[int32(key.Ordinal)] == 2 {
				return place.Domain.String()
			}
		}
		return ""
	}
	if a, b := goes(prefill), goes(decode); a != b {
		t.Errorf("prefill leaves %s and decode leaves %s: no decode replica has prefill in its rack", a, b)
	}
}
