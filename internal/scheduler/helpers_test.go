// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/graph"
)

var profile = &grovev1alpha1.ClusterTopology{
	ObjectMeta: metav1.ObjectMeta{Name: "p"},
	Spec:       grovev1alpha1.ClusterTopologySpec{Levels: []grovev1alpha1.TopologyLevel{{Domain: "zone", Key: "z"}, {Domain: "rack", Key: "r"}}},
}

func frozen(graphDomain, serviceDomain string) *trellisv1alpha1.ResolvedTopology {
	return &trellisv1alpha1.ResolvedTopology{
		Profile: "p", Levels: []trellisv1alpha1.ResolvedLevel{{Domain: "zone", Key: "z"}, {Domain: "rack", Key: "r"}},
		GraphPackDomain: graphDomain, PackDomain: serviceDomain,
	}
}

// newGroup is a service of replicas replicas with size pods each.
func newGroup(service string, replicas, size int32, t *trellisv1alpha1.ResolvedTopology) *trellisv1alpha1.ScalingGroup {
	roles := []trellisv1alpha1.Role{{Name: graph.RoleMain, Count: 1}}
	if size > 1 {
		roles = []trellisv1alpha1.Role{{Name: graph.RoleLeader, Count: 1}, {Name: graph.RoleWorker, Count: size - 1}}
	}
	return &trellisv1alpha1.ScalingGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "g-" + service, UID: types.UID(service)},
		Spec: trellisv1alpha1.ScalingGroupSpec{
			Graph: "g", Service: service, Engine: graph.EngineGates, Replicas: replicas, Multinode: size > 1, Topology: t, Roles: roles, Revision: "1",
		},
	}
}

// newPod is a pod of the group: gated when path is empty, else released and pinned there.
func newPod(sg *trellisv1alpha1.ScalingGroup, ordinal, index int32, path ...string) *corev1.Pod {
	pod := graph.BuildPod(sg, ordinal, index)
	pod.UID = types.UID(pod.Name)
	pod.OwnerReferences = []metav1.OwnerReference{{Kind: "ScalingGroup", Name: sg.Name, UID: sg.UID, Controller: ptr.To(true)}}
	if len(path) > 0 {
		pod.Spec.SchedulingGates = nil
		pod.Spec.NodeSelector = map[string]string{"z": path[0]}
		if len(path) > 1 {
			pod.Spec.NodeSelector["r"] = path[1]
		}
	}
	return pod
}

// scenario is a view in one line a service, for comparing.
func scenario(v view) []string {
	out := []string{fmt.Sprintf("graph anchor=%q creating=%v placed %d of %d", v.graph.Anchor.String(), v.creating, v.placed, v.wanted)}
	for _, s := range v.graph.Services {
		line := fmt.Sprintf("%s required=%d anchor=%q placed=%d", s.Name, s.Required, s.Anchor.String(), s.Placed)
		for _, r := range s.Waiting {
			line += fmt.Sprintf(" waits(%d pods=%d anchor=%q hint=%q)", r.Ordinal, len(r.Pods), r.Anchor.String(), r.Hint.String())
		}
		out = append(out, line)
	}
	for _, w := range v.blocked {
		out = append(out, fmt.Sprintf("blocked %s-%d %s", w.Service, w.Ordinal, w.Code))
	}
	if len(v.incomplete) > 0 {
		out = append(out, fmt.Sprintf("%d incomplete", len(v.incomplete)))
	}
	return out
}

func placementAt(domain string) trellisv1alpha1.ReplicaPlacement {
	return trellisv1alpha1.ReplicaPlacement{Domain: domain}
}
