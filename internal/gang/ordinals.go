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

// Ordinals lists the replicas of a group that are there or will be made, as the operator will decide from its pods. Of those to be made
// there are at most as many as the API allows a component. Recorded replicas are made before others.
func Ordinals(sg *trellisv1alpha1.ScalingGroup, pods []*corev1.Pod, recorded assignment.Replicas) []int {
	ordinals, _ := ordinalsOf(sg, podsByOrdinal(pods), recorded, nvidiav1beta1.MaxReplicas)
	return ordinals
}

// lookAhead is how many pods of a group that are still to be made one plan reckons with. What is beyond is planned when it is its turn.
const lookAhead = 4096

// aheadOf is how many replicas of which nothing exists yet one plan reckons with.
func aheadOf(sg *trellisv1alpha1.ScalingGroup) int {
	return max(1, lookAhead/int(max(1, render.PodsPerReplica(sg))))
}

// ordinalsOf lists the replicas that are there or will be made, as the scaling group controller will decide, and counts those beyond the
// first most to be made. A replica without a pod that stays is on its way out.
func ordinalsOf(sg *trellisv1alpha1.ScalingGroup, byOrdinal map[int][]*corev1.Pod, recorded assignment.Replicas, most int) (
	ordinals []int, beyond int,
) {
	var replicas []rollout.Replica
	for _, ordinal := range slices.Sorted(maps.Keys(byOrdinal)) {
		if len(byOrdinal[ordinal]) > 0 && !slices.ContainsFunc(byOrdinal[ordinal], func(pod *corev1.Pod) bool { return !Planned(pod) }) {
			continue // nothing of it exists
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

// markSurplus finds the replicas not placed that are more than the component wants permanently, the highest ordinals first. beyond are
// those without a state; they count as wanted unless they are surplus.
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
