// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// replicaState is the state of one replica: its gated (closed), released (open) and leaving pods, and the number of its absent pods.
type replicaState struct {
	ordinal      int
	closed, open []*corev1.Pod
	leaving      []*corev1.Pod
	absent       int
	path         topology.Path // the domain to which its open pods are pinned
	releasing    bool          // the release of some of the open pods is under way
	creating     bool          // the replica is being created in place
}

// replicaStates sorts a group's pods into replicas. A pod whose release is under way counts as released.
func (r *Request) replicaStates(sg *trellisv1alpha1.ScalingGroup, pods []*corev1.Pod, o *Observation) []replicaState {
	byOrdinal := podsByOrdinal(pods)
	ordinals, beyond := ordinalsOf(sg, byOrdinal, o.Record.Replicas(sg.Spec.Component), aheadOf(sg))
	states, levels := make([]replicaState, 0, len(ordinals)), LevelsOf(sg.Spec.Topology)
	for _, ordinal := range ordinals {
		state := replicaState{ordinal: ordinal, absent: int(render.PodsPerReplica(sg))}
		current := withoutSuperseded(sg, byOrdinal[ordinal], o.Releasing)
		for _, pod := range current {
			if !Leaving(pod) {
				state.absent = render.ReplicaSize(sg, pod)
			}
		}
		for _, pod := range current {
			r.sortPod(&state, sg, levels, pod, o)
		}
		if state.creating { // pods of earlier attempts may be leaving
			state.leaving = nil
		}
		states = append(states, state)
	}
	r.markSurplus(sg, states, beyond)
	return states
}

func (r *Request) sortPod(
	state *replicaState, sg *trellisv1alpha1.ScalingGroup, levels topology.Levels, pod *corev1.Pod, o *Observation,
) {
	if Leaving(pod) || o.superseded(sg, pod) {
		state.leaving = append(state.leaving, pod)
		return
	}
	path, onItsWay := o.Releasing[topology.PodID(pod)]
	state.absent--
	switch {
	case onItsWay:
		state.path, state.releasing, state.creating = path, true, state.creating || Planned(pod)
	case !render.GateClosed(pod):
		state.path = levels.PathOf(pod.Spec.NodeSelector)
		if gang := pod.Annotations[render.AnnotationGang]; gang != "" {
			r.gangs[Key{Component: sg.Spec.Component, Ordinal: state.ordinal}] = gang
		}
	default:
		state.closed = append(state.closed, pod)
		return
	}
	state.open = append(state.open, pod)
}

// withoutSuperseded omits the pods of a replica that were never released and have an older revision, as if these pods did not exist yet.
// The scaling group controller recreates such pods at once, with any update strategy, because nothing is lost with them. If such pods were
// released, their gang would soon lose them. They might not even match the current spec, by which providers form gangs. While an update is
// paused, withoutSuperseded returns all pods of a replica for which [CanStay] is true.
func withoutSuperseded(sg *trellisv1alpha1.ScalingGroup, pods []*corev1.Pod, releasing map[string]topology.Path) []*corev1.Pod {
	begun := slices.ContainsFunc(pods, func(pod *corev1.Pod) bool {
		_, onItsWay := releasing[topology.PodID(pod)]
		return onItsWay || !render.GateClosed(pod)
	})
	if paused := sg.Spec.Step != nil && sg.Spec.Step.Paused; paused && CanStay(sg, pods, begun) {
		return pods
	}
	return slices.DeleteFunc(slices.Clone(pods), func(pod *corev1.Pod) bool {
		_, onItsWay := releasing[topology.PodID(pod)]
		return render.GateClosed(pod) && render.Outdated(sg, pod) && !Leaving(pod) && !onItsWay
	})
}

// CanStay reports whether the pods of a waiting replica are a complete replica of an older revision, which can be placed while an update is
// paused. A replica whose size differs from the spec can be placed only if some of its pods are released (begun), because providers form
// gangs by the spec.
func CanStay(sg *trellisv1alpha1.ScalingGroup, pods []*corev1.Pod, begun bool) bool {
	size := 0
	for _, pod := range pods {
		if Leaving(pod) || !render.Outdated(sg, pod) {
			return false
		}
		size = max(size, render.ReplicaSize(sg, pod))
	}
	return len(pods) == size && (begun || size == int(render.PodsPerReplica(sg)))
}

// replaced reports whether the scaling group controller deletes the replica and recreates it, as a unit.
func (state replicaState) replaced() bool {
	return len(state.leaving) > 0 || (state.absent > 0 && len(state.open) > 0)
}

// neverWhole reports whether all gated pods existed when the open pods were bound. A younger gated pod may be the successor of a lost
// member. All times are in whole seconds.
func (state replicaState) neverWhole() bool {
	for _, pod := range state.open {
		if pod.Spec.NodeName == "" {
			continue
		}
		bound := boundAt(pod)
		if bound == nil || slices.ContainsFunc(state.closed, func(gated *corev1.Pod) bool { return bound.Before(&gated.CreationTimestamp) }) {
			return false
		}
	}
	return true
}
