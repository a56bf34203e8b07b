// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package gangtest makes scaling groups and pods for tests of decisions about gangs.
package gangtest

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/internal/render"
)

// Topology has the levels zone, with key z, and rack, with key r.
var Topology = &grovev1alpha1.ClusterTopology{
	ObjectMeta: metav1.ObjectMeta{Name: "p"},
	Spec: grovev1alpha1.ClusterTopologySpec{Levels: []grovev1alpha1.TopologyLevel{{Domain: "zone", Key: "z"}, {Domain: "rack",
		Key: "r"}}},
}

// Frozen returns a constraint of Topology on a graph and a component; "" for no constraint.
func Frozen(graphDomain, componentDomain string) *trellisv1alpha1.ResolvedTopology {
	return &trellisv1alpha1.ResolvedTopology{
		ClusterTopology: "p", Levels: []trellisv1alpha1.ResolvedLevel{{Domain: "zone", Key: "z"}, {Domain: "rack", Key: "r"}},
		GraphPackDomain: graphDomain, PackDomain: componentDomain,
	}
}

// Group returns a scaling group of the graph g in the namespace ns, with replicas of size pods.
func Group(component string, replicas, size int32, t *trellisv1alpha1.ResolvedTopology) *trellisv1alpha1.ScalingGroup {
	roles := []trellisv1alpha1.Role{{Name: render.RoleMain, Count: 1}}
	if size > 1 {
		roles = []trellisv1alpha1.Role{{Name: render.RoleLeader, Count: 1}, {Name: render.RoleWorker, Count: size - 1}}
	}
	return &trellisv1alpha1.ScalingGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "g-" + component, UID: types.UID(component)},
		Spec: trellisv1alpha1.ScalingGroupSpec{
			Graph: "g", Component: component, Provider: specs.Gates.Name, Replicas: replicas, Multinode: size > 1, Topology: t, Roles: roles,
			Revision: "1",
		},
	}
}

// Pod returns one pod of a group: gated without a path, otherwise released and pinned to the path.
func Pod(sg *trellisv1alpha1.ScalingGroup, ordinal, index int32, path ...string) *corev1.Pod {
	pod := render.BuildPod(sg, ordinal, index)
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
