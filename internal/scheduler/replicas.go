// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/engine/gates"
	"github.com/trellis-k8s/trellis/internal/graph"
	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// replicaState is one replica as its pods show it.
type replicaState struct {
	ordinal         int
	closed, open    []*corev1.Pod
	leaving, absent int
	path            topology.Path // where its open pods are pinned
}

// replicaStates sorts a group's pods into replicas. A pod whose release is under way counts as released.
func (v *view) replicaStates(sg *trellisv1alpha1.ScalingGroup, pods []*corev1.Pod, releasing map[string]topology.Path) []replicaState {
	byOrdinal := podsByOrdinal(pods)
	ordinals, beyond := ordinalsOf(sg, byOrdinal, aheadOf(sg))
	states := make([]replicaState, 0, len(ordinals))
	for _, ordinal := range ordinals {
		state := replicaState{ordinal: ordinal, absent: int(graph.PodsPerReplica(sg))}
		for _, pod := range byOrdinal[ordinal] {
			if !leaving(pod) && !superseded(sg, pod) {
				state.absent = graph.ReplicaSize(sg, pod)
			}
		}
		for _, pod := range byOrdinal[ordinal] {
			v.sortPod(&state, sg, pod, releasing)
		}
		states = append(states, state)
	}
	v.markSurplus(sg, states, beyond)
	return states
}

func (v *view) sortPod(state *replicaState, sg *trellisv1alpha1.ScalingGroup, pod *corev1.Pod, releasing map[string]topology.Path) {
	path, onItsWay := releasing[topology.PodID(pod)]
	switch {
	case leaving(pod):
		state.leaving++
		return
	case superseded(sg, pod) && !onItsWay:
		return // as if it were still to be made
	}
	state.absent--
	switch {
	case onItsWay:
		state.path = path
	case !gates.Closed(pod):
		state.path = v.graph.Levels.PathOf(pod.Spec.NodeSelector)
		if gang := pod.Annotations[graph.AnnotationGang]; gang != "" {
			v.gangs[replicaKey{sg.Spec.Service, state.ordinal}] = gang
		}
	default:
		state.closed = append(state.closed, pod)
		return
	}
	state.open = append(state.open, pod)
}

// leaving pods neither anchor nor wait.
func leaving(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
}

// superseded: a pod that was never released and is of an older revision. The scaling group controller recreates it at once, whatever the
// strategy, since nothing is lost with it. Let go meanwhile, it would be lost to its gang, and may not even suit it.
func superseded(sg *trellisv1alpha1.ScalingGroup, pod *corev1.Pod) bool {
	return gates.Closed(pod) && graph.Outdated(sg, pod)
}

// replaced: the scaling group controller takes it away and recreates it, whole.
func (state replicaState) replaced() bool {
	return state.leaving > 0 || (state.absent > 0 && len(state.open) > 0)
}

func (v *view) addReplica(g *groupView, service *placement.Service, state replicaState) {
	if state.replaced() {
		return
	}
	if len(state.closed) == 0 && state.absent == 0 {
		service.Placed++
		if !v.object(service.Name, state) && !v.block(service.Name, state) {
			v.placed++
		}
		return
	}
	replica := placement.Replica{Ordinal: state.ordinal, Hint: g.hints[int32(state.ordinal)]}
	if len(state.open) > 0 {
		replica.Anchor = state.path
	}
	if level := g.lost.blocks(v.graph.Anchor != nil, service.Anchor != nil || len(state.open) > 0); level != "" {
		v.blocked = append(v.blocked, Waiting{
			Service: service.Name, Ordinal: state.ordinal, Code: placement.CodeLevelGone,
			Message: fmt.Sprintf("level '%s' is not available in ClusterTopology %q; nothing is placed without it, so it waits until the level is back", level, g.sg.Spec.Topology.Profile),
		})
		return
	}
	for _, pod := range state.closed {
		v.lowerPriority(pod)
		id := topology.PodID(pod)
		v.gated[id] = pod
		replica.Pods = append(replica.Pods, placement.Pod{ID: id, Name: pod.Name, Shape: topology.ShapeOf(pod)})
	}
	if state.absent > 0 {
		v.incomplete[replicaKey{service.Name, state.ordinal}] = true
		g.addWanted(&replica, state)
	}
	slices.SortFunc(replica.Pods, func(a, b placement.Pod) int { return cmp.Compare(a.Name, b.Name) })
	service.Waiting = append(service.Waiting, replica)
}
