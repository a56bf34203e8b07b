// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// replicaState is one replica as its pods show it.
type replicaState struct {
	ordinal      int
	closed, open []*corev1.Pod
	leaving      []*corev1.Pod
	absent       int
	path         topology.Path // where its open pods are pinned
	releasing    bool          // the release of some of the open pods is under way
	creating     bool          // it is being created in place
}

// replicaStates sorts a group's pods into replicas. A pod whose release is under way counts as released.
func (r *Request) replicaStates(sg *trellisv1alpha1.ScalingGroup, pods []*corev1.Pod, o *Observation) []replicaState {
	byOrdinal := podsByOrdinal(pods)
	ordinals, beyond := ordinalsOf(sg, byOrdinal, aheadOf(sg))
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
			r.gangs[Key{Component: sg.Spec.Service, Ordinal: state.ordinal}] = gang
		}
	default:
		state.closed = append(state.closed, pod)
		return
	}
	state.open = append(state.open, pod)
}

// withoutSuperseded leaves out the pods of a replica that were never released and are of an older revision, as if they were still to be
// made: the scaling group controller recreates them at once, whatever the strategy, since nothing is lost with them. Released meanwhile,
// they would be lost to their gang, and may not even suit it. While the update is paused, a replica that [CanStay] is placed as it is.
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

// CanStay reports whether the pods of a replica that waits while an update is paused are an entire replica of an older revision, which can
// be placed. One of another size can be placed only where its gang has begun: some of it is released. Providers form gangs by the spec.
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

// replaced: the scaling group controller takes it away and recreates it, whole.
func (state replicaState) replaced() bool {
	return len(state.leaving) > 0 || (state.absent > 0 && len(state.open) > 0)
}

// neverWhole reports whether the gated pods were there when the open ones were bound: none of them is the successor of a lost member. All
// times are of whole seconds.
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

// noteFailing notes that a replica is being released whose release has failed before.
func (r *Request) noteFailing(component string, state replicaState) bool {
	if r.o.Failing == "" || !state.releasing {
		return false
	}
	r.Refused = append(r.Refused, Waiting{Component: component, Ordinal: state.ordinal, Code: CodeReleaseRefused, Message: r.o.Failing})
	return true
}

// noteObjection notes that a replica which is placed is not bound there by the scheduler that is to do it.
func (r *Request) noteObjection(component string, state replicaState) bool {
	for _, pod := range state.open {
		if why := r.o.Objections[pod.UID]; why.Message != "" && !why.Passing {
			r.Refused = append(r.Refused, Waiting{
				Component: component, Ordinal: state.ordinal, Code: CodeSchedulerRefuses,
				Message: "by Trellis' count it has capacity in " + OrCluster(state.path) + "; " + cmp.Or(r.o.Idle[topology.PodID(pod)], why.Message),
			})
			return true
		}
	}
	return false
}

// noteIdle notes that nothing tries to bind a replica which is released.
func (r *Request) noteIdle(component string, state replicaState) bool {
	return r.notePods(component, state, state.open, r.o.Idle, CodeSchedulingBlocked)
}

// notePreempting notes that pods of lower priority have to leave before a replica can be bound.
func (r *Request) notePreempting(component string, state replicaState) bool {
	return r.notePods(component, state, state.open, r.o.Preempting, CodePreempting)
}

// noteUnschedulable notes that the scheduler refuses a pod of a replica which is released.
func (r *Request) noteUnschedulable(component string, state replicaState) bool {
	for _, pod := range state.open {
		if said := r.o.Unschedulable[topology.PodID(pod)]; said != "" {
			r.Refused = append(r.Refused, Waiting{
				Component: component, Ordinal: state.ordinal, Code: CodeUnschedulable,
				Message: fmt.Sprintf("the scheduler refuses pod %s, which is released to %s: %s", pod.Name, OrCluster(state.path), said),
			})
			return true
		}
	}
	return false
}

// noteNotEnding notes that a replica cannot be recreated yet, because a pod of it does not end.
func (r *Request) noteNotEnding(component string, state replicaState) {
	r.notePods(component, state, state.leaving, r.o.NotEnding, CodePodsNotEnding)
}

// notePods notes what a replica waits for, by what is said of the first of some of its pods of which something is.
func (r *Request) notePods(component string, state replicaState, pods []*corev1.Pod, why map[string]string, code string) bool {
	at := slices.IndexFunc(pods, func(pod *corev1.Pod) bool { return why[topology.PodID(pod)] != "" })
	if at < 0 {
		return false
	}
	r.Refused = append(r.Refused, Waiting{Component: component, Ordinal: state.ordinal, Code: code, Message: why[topology.PodID(pods[at])]})
	return true
}

// noteUnbound notes what keeps a replica that is released from being bound, if anything is known.
func (r *Request) noteUnbound(component string, state replicaState) bool {
	return r.noteFailing(component, state) || r.noteObjection(component, state) || r.noteIdle(component, state) ||
		r.notePreempting(component, state) || r.noteUnschedulable(component, state)
}

func (r *Request) addReplica(g *groupView, component *placement.Component, state replicaState) {
	unbound := func(pod *corev1.Pod) bool { return pod.Spec.NodeName == "" }
	r.unbound = r.unbound || state.replaced() || slices.ContainsFunc(state.open, unbound)
	if state.replaced() {
		r.noteNotEnding(component.Name, state)
		return
	}
	if len(state.closed) == 0 && state.absent == 0 {
		component.Placed++
		if !r.noteUnbound(component.Name, state) {
			r.Placed++
		}
		return
	}
	replica := r.unplaced(g, component.Name, state)
	if level := g.lost.blocks(r.Graph.Anchor != nil, component.Anchor != nil || len(state.open) > 0, len(state.open) > 0); level != "" {
		r.Blocked = append(r.Blocked, Waiting{
			Component: component.Name, Ordinal: state.ordinal, Code: placement.CodeLevelGone,
			Message: unavailable(g.sg.Spec.Topology, g.profile, level),
		})
		return
	}
	r.addPods(g, component.Name, &replica, state)
	if why := AdmissionWait(state.closed); why != "" {
		r.awaiting[Key{Component: component.Name, Ordinal: state.ordinal}] = why
	}
	slices.SortFunc(replica.Pods, func(a, b placement.Pod) int { return cmp.Compare(a.Name, b.Name) })
	component.Waiting = append(component.Waiting, replica)
}

// unplaced is a replica of which pods are to be placed: where it was, and where those of its pods are that have their places.
func (r *Request) unplaced(g *groupView, component string, state replicaState) placement.Replica {
	replica := placement.Replica{Ordinal: state.ordinal, Avoid: r.avoid(g, component, state.ordinal), Generation: generationOf(g.sg, state)}
	if _, leaves := r.left[Key{Component: component, Ordinal: state.ordinal}]; !leaves {
		replica.Hint = g.hints[int32(state.ordinal)]
	}
	if len(state.open) > 0 {
		replica.Anchor = state.path
		for _, pod := range state.open {
			replica.On = append(replica.On, topology.PodID(pod))
		}
		r.halves[Key{Component: component, Ordinal: state.ordinal}] = state
	}
	return replica
}

// addPods adds the pods of a replica that are to be placed, those that do not exist yet included.
func (r *Request) addPods(g *groupView, component string, replica *placement.Replica, state replicaState) {
	for _, pod := range state.closed {
		r.lowerPriority(pod)
		id := topology.PodID(pod)
		r.Gated[id] = pod
		replica.Pods = append(replica.Pods, placement.Pod{ID: id, Name: pod.Name, Shape: topology.ShapeOf(pod)})
	}
	if state.absent > 0 {
		r.incomplete[Key{Component: component, Ordinal: state.ordinal}] = true
		g.addWanted(replica, state)
	}
}
