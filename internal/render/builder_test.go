// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/framework"
)

// A builder makes the very pods that BuildPod makes, in any order, and those of one replica share one list of addresses.
func TestBuilder(t *testing.T) {
	sg := group(t, graphOf("llm", map[string]int32{"Decode": 4}))
	for i := range sg.Spec.Roles {
		sg.Spec.Roles[i].Template.Spec.Containers[0].Args = []string{"--hosts", "$(TRELLIS_HOSTS)"}
	}
	build := NewBuilder(sg)
	for _, at := range [][2]int32{{0, 0}, {0, 3}, {1, 1}, {0, 2}, {2, 0}} {
		if diff := cmp.Diff(BuildPod(sg, at[0], at[1]), build.Pod(at[0], at[1])); diff != "" {
			t.Errorf("pod %v (-alone +of a builder):\n%s", at, diff)
		}
		if got := PodName(sg, at[0], at[1]); got != BuildPod(sg, at[0], at[1]).Name {
			t.Errorf("pod %v is called %s", at, got)
		}
	}
	hosts := func(index int32) *byte {
		for _, v := range build.Pod(5, index).Spec.Containers[0].Env {
			if v.Name == framework.EnvHosts {
				return unsafe.StringData(v.Value)
			}
		}
		return nil
	}
	if first := hosts(0); first == nil || first != hosts(1) || first != hosts(3) {
		t.Error("each pod has a list of addresses of its own")
	}
}

// Roles that add up to more than an int32 holds are counted as the largest there is.
func TestPodsPerReplicaDoesNotOverflow(t *testing.T) {
	sg := &trellisv1alpha1.ScalingGroup{}
	sg.Spec.Roles = []trellisv1alpha1.Role{{Count: 1}, {Count: 1<<31 - 1}, {Count: 1<<31 - 1}}
	if got := PodsPerReplica(sg); got != 1<<31-1 || !Oversized(sg) {
		t.Errorf("%d pods a replica, oversized %v", got, Oversized(sg))
	}
	sg.Spec.Roles = []trellisv1alpha1.Role{{Count: 1}, {Count: 4095}}
	if got := PodsPerReplica(sg); got != 4096 || Oversized(sg) {
		t.Errorf("%d pods a replica, oversized %v", got, Oversized(sg))
	}
}
