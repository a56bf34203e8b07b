// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	corev1 "k8s.io/api/core/v1"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/assignment"
	"github.com/trellis-k8s/trellis/internal/bools"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// Shown derives the state of each replica that Trellis places from the replica's pods, for [assignment.Record.Follow].
func Shown(o Observation) map[Key]assignment.Shown {
	out, byGroup := map[Key]assignment.Shown{}, podsByGroup(o.Pods)
	for _, sg := range o.Groups {
		if !render.Gated(sg) {
			continue
		}
		levels := LevelsOf(sg.Spec.Topology)
		for ordinal, pods := range podsByOrdinal(byGroup[string(sg.UID)]) {
			out[Key{Component: sg.Spec.Component, Ordinal: ordinal}] = shownBy(&o, sg, levels, pods)
		}
	}
	return out
}

// ReleasedReplicas returns the names of the replicas with released pods; see [Of].
func ReleasedReplicas(o Observation) map[string]bool {
	out := map[string]bool{}
	for _, pod := range o.Pods {
		if _, onItsWay := o.Releasing[topology.PodID(pod)]; !Leaving(pod) && (onItsWay || !render.GateClosed(pod)) {
			out[Of(pod)] = true
		}
	}
	return out
}

// shownBy derives the state of one replica from its pods.
func shownBy(o *Observation, sg *trellisv1alpha1.ScalingGroup, levels topology.Levels, pods []*corev1.Pod) assignment.Shown {
	var one assignment.Shown
	var n shownPods
	for _, pod := range pods {
		_, onItsWay := o.Releasing[topology.PodID(pod)]
		if Planned(pod) && onItsWay { // pods of earlier attempts may be leaving
			return assignment.Shown{State: assignment.Underway}
		}
		leaves := Leaving(pod) || o.superseded(sg, pod)
		if n.add(sg, pod, leaves, onItsWay); leaves || onItsWay || render.GateClosed(pod) {
			continue
		}
		if gang := pod.Annotations[render.AnnotationGang]; gang != "" {
			one.Gang = gang
		}
		if attempt := render.AttemptOf(pod); one.Attempt == 0 || attempt < one.Attempt {
			one.Attempt = attempt
		}
		one.Base = one.Base || pod.Annotations[render.AnnotationGangReplicas] != ""
		if one.Domain = levels.PathOf(pod.Spec.NodeSelector); pod.Spec.NodeName != "" {
			continue
		}
		_, index, _ := render.ReplicaOf(pod)
		for len(one.Hosts) <= int(index) {
			one.Hosts = append(one.Hosts, "")
		}
		one.Hosts[index] = PinnedHost(pod)
	}
	one.State = n.state()
	return one
}

// shownPods counts the pods of one replica. open counts released pods; bound counts pods with a node, including leaving pods.
type shownPods struct{ size, open, bound, gated, leaving, underway int }

func (n *shownPods) add(sg *trellisv1alpha1.ScalingGroup, pod *corev1.Pod, leaves, onItsWay bool) {
	n.size = max(n.size, render.ReplicaSize(sg, pod))
	n.bound += bools.Int(pod.Spec.NodeName != "")
	switch {
	case leaves:
		n.leaving++
	case onItsWay:
		n.underway++
	case render.GateClosed(pod):
		n.gated++
	default:
		n.open++
	}
}

func (n *shownPods) state() assignment.State {
	exist := n.open + n.gated + n.underway
	switch {
	case n.leaving > 0 && n.bound == n.size:
		return assignment.Lost
	case n.open+n.underway > 0 && (n.leaving > 0 || exist < n.size), n.leaving > 0 && exist == 0:
		return assignment.Ending
	case n.underway > 0:
		return assignment.Underway
	case n.open == 0:
		return assignment.Waits
	case n.bound == n.size:
		return assignment.AllBound
	}
	return assignment.Released
}

// WantsReplica returns a function that reports whether a replica exists or will be created, according to [Ordinals]. The function lists the
// ordinals of a component at its first call for the component.
func WantsReplica(o Observation) func(Key) bool {
	byGroup, wanted := podsByGroup(o.Pods), map[string]map[int]bool{}
	return func(key Key) bool {
		of, listed := wanted[key.Component]
		if !listed {
			of = map[int]bool{}
			for _, sg := range o.Groups {
				if sg.Spec.Component != key.Component || !render.Gated(sg) {
					continue
				}
				for _, ordinal := range Ordinals(sg, byGroup[string(sg.UID)], o.Record.Replicas(key.Component)) {
					of[ordinal] = true
				}
			}
			wanted[key.Component] = of
		}
		return of[key.Ordinal]
	}
}
