// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/test/testutil/hub"
)

func TestGated(t *testing.T) {
	topology := func(change func(*trellisv1alpha1.ResolvedTopology)) *trellisv1alpha1.ResolvedTopology {
		out := &trellisv1alpha1.ResolvedTopology{ClusterTopology: "hall-one"}
		change(out)
		return out
	}
	tests := map[string]struct {
		provider  string
		multinode bool
		topology  *trellisv1alpha1.ResolvedTopology
		want      bool
	}{
		"one pod, no constraint":           {provider: specs.Gates.Name},
		"one pod, constraint elsewhere":    {provider: specs.Gates.Name, topology: topology(func(*trellisv1alpha1.ResolvedTopology) {})},
		"several pods":                     {provider: specs.Gates.Name, multinode: true, want: true},
		"graph":                            {provider: specs.Gates.Name, topology: topology(func(t *trellisv1alpha1.ResolvedTopology) { t.GraphPackDomain = "zone" }), want: true},
		"graph preferred":                  {provider: specs.Gates.Name, topology: topology(func(t *trellisv1alpha1.ResolvedTopology) { t.GraphPreferredPackDomain = "zone" }), want: true},
		"service":                          {provider: specs.Gates.Name, topology: topology(func(t *trellisv1alpha1.ResolvedTopology) { t.PackDomain = "rack" }), want: true},
		"service preferred":                {provider: specs.Gates.Name, topology: topology(func(t *trellisv1alpha1.ResolvedTopology) { t.PreferredPackDomain = "rack" }), want: true},
		"a transfer policy":                {provider: specs.Gates.Name, topology: topology(func(t *trellisv1alpha1.ResolvedTopology) { t.KVTransferDomain = "rack" }), want: true},
		"another provider has its own way": {provider: specs.Grove.Name, multinode: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			sg := &trellisv1alpha1.ScalingGroup{Spec: trellisv1alpha1.ScalingGroupSpec{
				Provider: tc.provider, Multinode: tc.multinode, Topology: tc.topology, Roles: []trellisv1alpha1.Role{{Name: "main", Count: 1}},
			}}
			sg.Name = "g-w"
			if got := Gated(sg); got != tc.want {
				t.Errorf("Gated = %v", got)
			}
			if gates := BuildPod(sg, 0, 0).Spec.SchedulingGates; (len(gates) == 1 && gates[0].Name == PlacementGate) != tc.want {
				t.Errorf("gates %v", gates)
			}
		})
	}
}

func TestUsersGatesStay(t *testing.T) {
	dgd := graphOf("llm", map[string]int32{"w": 2})
	dgd.Spec.Services["w"].ExtraPodSpec = &nvidiav1alpha1.ExtraPodSpec{PodSpec: &corev1.PodSpec{SchedulingGates: []corev1.PodSchedulingGate{{Name: "example.com/quota"}}}}
	sg := group(t, dgd)
	want := []corev1.PodSchedulingGate{{Name: "example.com/quota"}, {Name: PlacementGate}}
	if diff := cmp.Diff(want, BuildPod(sg, 0, 1).Spec.SchedulingGates); diff != "" {
		t.Error(diff)
	}
}

// TestPodsOfAGroupAreTheirOwn: a pod can be changed without changing the template, twice made is twice the same.
func TestPodsOfAGroupAreTheirOwn(t *testing.T) {
	sg := group(t, graphOf("llm", map[string]int32{"w": 3}))
	before := sg.DeepCopy()
	pod := BuildPod(sg, 1, 2)
	pod.Labels["x"], pod.Spec.Containers[0].Env[0].Value = "y", "changed"
	if diff := cmp.Diff(before, sg); diff != "" {
		t.Errorf("the group changed:\n%s", diff)
	}
	if diff := cmp.Diff(BuildPod(sg, 1, 2), BuildPod(sg, 1, 2)); diff != "" {
		t.Error(diff)
	}
}

// TestAddressesOfALaterAttempt: all pods of a replica have the addresses of its attempt, and names without it.
func TestAddressesOfALaterAttempt(t *testing.T) {
	sg := group(t, graphOf("llm", map[string]int32{"Decode": 2}))
	build := NewBuilder(sg)
	for attempt, want := range map[int32]string{1: "llm-decode-3-0", 2: "llm-decode-3-0-a2"} {
		leader, worker := build.PodOfAttempt(3, 0, attempt), build.PodOfAttempt(3, 1, attempt)
		address := worker.Spec.Containers[0].Env[0].Value
		if leader.Name != "llm-decode-3-0" || leader.Spec.Hostname != want || address != want+".llm-decode-pods.team.svc" {
			t.Errorf("attempt %d: leader %s has the host name %s, and its worker the address %s", attempt, leader.Name, leader.Spec.Hostname,
				address)
		}
	}
}

// TestAddresses: the list of all addresses is in the pods of a container that mentions it, and in no other.
func TestAddresses(t *testing.T) {
	sg := group(t, graphOf("llm", map[string]int32{"Decode": 2}))
	for _, env := range BuildPod(sg, 3, 1).Spec.Containers[0].Env {
		if env.Name == "TRELLIS_HOSTS" {
			t.Error("a container that does not mention the list has it")
		}
	}
	for i := range sg.Spec.Roles {
		sg.Spec.Roles[i].Template.Spec.Containers[0].Args = []string{"--hosts", "$(TRELLIS_HOSTS)"}
	}
	pod := BuildPod(sg, 3, 1)
	got := map[string]string{"name": pod.Name, "hostname": pod.Spec.Hostname, "subdomain": pod.Spec.Subdomain, "role": pod.Labels[LabelRole]}
	for _, env := range pod.Spec.Containers[0].Env[:4] {
		got[env.Name] = env.Value
	}
	want := map[string]string{
		"name": "llm-decode-3-1", "hostname": "llm-decode-3-1", "subdomain": "llm-decode-pods", "role": RoleWorker,
		"TRELLIS_LEADER_ADDRESS": "llm-decode-3-0.llm-decode-pods.team.svc",
		"TRELLIS_HOSTS":          "llm-decode-3-0.llm-decode-pods.team.svc,llm-decode-3-1.llm-decode-pods.team.svc",
		"TRELLIS_POD_INDEX":      "1",
		"TRELLIS_REPLICA":        "3",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestReplicaOf(t *testing.T) {
	for name, labels := range map[string]map[string]string{
		"none":     nil,
		"half":     {LabelReplica: "1"},
		"negative": {LabelReplica: "-1", LabelPodIndex: "0"},
		"words":    {LabelReplica: "one", LabelPodIndex: "0"},
		"too much": {LabelReplica: "99999999999", LabelPodIndex: "0"},
	} {
		pod := &corev1.Pod{}
		pod.Labels = labels
		if ordinal, index, ok := ReplicaOf(pod); ok {
			t.Errorf("%s: %d %d", name, ordinal, index)
		}
	}
}

// group resolves a deployment of one component.
func group(t *testing.T, dgd *nvidiav1alpha1.DynamoGraphDeployment) *trellisv1alpha1.ScalingGroup {
	t.Helper()
	g, err := Resolve(hub.Of(dgd), Inputs{Provider: specs.Gates.Name})
	if err != nil {
		t.Fatal(err)
	}
	return g.ScalingGroups()[0]
}
