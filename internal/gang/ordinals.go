// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/assignment"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/rollout"
)

// Ordinals lists the ordinals of the replicas of a group that exist or will be created, as the scaling group controller chooses them. Of
// the replicas to create, it lists at most as many as the API allows for a component. Recorded replicas are created before other replicas.
func Ordinals(sg *trellisv1alpha1.ScalingGroup, pods []*corev1.Pod, recorded assignment.Replicas) []int {
	ordinals, _ := ordinalsOf(sg, podsByOrdinal(pods), recorded, nvidiav1beta1.MaxReplicas)
	return ordinals
}

// lookAhead is the maximum number of a group's pods that one plan includes before these pods exist. Later plans include the other pods.
const lookAhead = 4096

// aheadOf returns the maximum number of replicas that one plan includes before any of their pods exist.
func aheadOf(sg *trellisv1alpha1.ScalingGroup) int {
	return max(1, lookAhead/int(max(1, render.PodsPerReplica(sg))))
}

// ordinalsOf lists the ordinals of the replicas that exist or will be created, as the scaling group controller will choose them. Of the
// replicas to create, it lists at most the given number; beyond is the number of further replicas. A replica counts as leaving if none of
// its pods stays.
func ordinalsOf(sg *trellisv1alpha1.ScalingGroup, byOrdinal map[int][]*corev1.Pod, recorded assignment.Replicas, most int) (
	ordinals []int, beyond int,
) {
	var replicas []rollout.Replica
	for _, ordinal := range slices.Sorted(maps.Keys(byOrdinal)) {
		if len(byOrdinal[ordinal]) > 0 && !slices.ContainsFunc(byOrdinal[ordinal], func(pod *corev1.Pod) bool { return !Planned(pod) }) {
			continue // no pod of the replica exists
		}
		r := rollout.Replica{Ordinal: ordinal, State: rollout.Leaving}
		for _, pod := range withoutSuperseded(sg, byOrdinal[ordinal], nil) {
			if !Leaving(pod) {
				r.State = rollout.Starting
				r.Outdated = r.Outdated || render.Outdated(sg, pod)
			}
		}
		replicas = append(replicas, r)
	}
	group := rollout.For(sg)
	ordinals = group.Ordinals(replicas, recorded.Ordinals(), most)
	return ordinals, group.Wanted(replicas) - len(ordinals)
}

// markSurplus marks unplaced replicas as surplus, the highest ordinals first, if there are more replicas than the component wants
// permanently. The first surplus replicas are the beyond replicas, which have no state. markSurplus adds the other beyond replicas to
// r.Wanted.
func (r *Request) markSurplus(sg *trellisv1alpha1.ScalingGroup, states []replicaState, beyond int) {
	surplus := len(states) + beyond - int(sg.Spec.Replicas)
	r.Wanted += beyond - min(beyond, max(0, surplus))
	surplus -= beyond
	for _, state := range slices.Backward(states) {
		if surplus > 0 && len(state.open) == 0 && len(state.leaving) == 0 {
			r.surplus[Key{Component: sg.Spec.Component, Ordinal: state.ordinal}] = true
			surplus--
		}
	}
}
