// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/assignment"
	"github.com/trellis-k8s/trellis/internal/gpus"
	"github.com/trellis-k8s/trellis/internal/leaving"
	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/repack"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// Movable reads the replicas that may move to free a place for others.
type Movable struct {
	Cluster *topology.Cluster
	// Admit is a pod that is still to be made as it would be stored, and Priority that of one which exists.
	Admit    func(*corev1.Pod) *corev1.Pod
	Priority func(*corev1.Pod) int32
	// GPUs counts those of a pod; false when they cannot be counted.
	GPUs func(*corev1.Pod) (int64, bool)
}

// Of returns the replicas of a group that run entirely and that a plan on the topology of a place can place again. pods are those of the
// group. The deployment must have the annotation [render.AnnotationMayMove].
func (m *Movable) Of(sg *trellisv1alpha1.ScalingGroup, pods []*corev1.Pod, place *repack.Place) (out []repack.Replica) {
	if !render.Gated(sg) || render.Oversized(sg) || sg.Spec.Moves == trellisv1alpha1.MovesNever || !place.SameTopology(placedBy(sg)) {
		return nil
	}
	byOrdinal := podsByOrdinal(pods)
	for _, ordinal := range Ordinals(sg, pods, assignment.Replicas{}) {
		if one := m.replica(sg, ordinal, byOrdinal[ordinal]); one != nil {
			out = append(out, *one)
		}
	}
	return out
}

// Replacing reports whether replicas of a stored group are outdated or requested to leave, other than to free a place. pods are the group's
// pods.
func Replacing(sg *trellisv1alpha1.ScalingGroup, pods []*corev1.Pod) bool {
	return slices.ContainsFunc(pods, func(pod *corev1.Pod) bool {
		request, requested := leaving.EvictionOf(pod)
		return render.Outdated(sg, pod) || requested && request.For == ""
	})
}

// GPUsWithoutClaims counts the GPUs of a pod; false for a pod with claims, because devices of claims do not count as free when it leaves.
func GPUsWithoutClaims(pod *corev1.Pod) (int64, bool) {
	shape, err := gpus.ShapeOf([]gpus.Pods{{Spec: &pod.Spec, Count: 1}}, gpus.Devices{})
	return shape.PerReplica, err == nil && len(pod.Spec.ResourceClaims) == 0
}

// placedBy is what the replicas of a group are placed by.
func placedBy(sg *trellisv1alpha1.ScalingGroup) (topology.Levels, map[string]string) {
	if t := sg.Spec.Topology; t != nil {
		return LevelsOf(t), t.NodeSelector
	}
	return nil, nil
}

// replica is one that runs and may move; nil when it does not run entirely, or when its GPUs cannot be counted.
func (m *Movable) replica(sg *trellisv1alpha1.ScalingGroup, ordinal int, pods []*corev1.Pod) *repack.Replica {
	if len(pods) == 0 || len(pods) < render.ReplicaSize(sg, pods[0]) || len(pods) != int(render.PodsPerReplica(sg)) {
		return nil
	}
	out := &repack.Replica{Namespace: sg.Namespace, Graph: sg.Spec.Graph, Component: sg.Spec.Component, Ordinal: ordinal}
	for i, pod := range pods {
		id := topology.PodID(pod)
		node, bound := m.Cluster.Bound(id)
		n, known := m.GPUs(pod)
		if !bound || !known || Leaving(pod) {
			return nil
		}
		if priority := m.Priority(pod); i == 0 || priority > out.Priority {
			out.Priority = priority
		}
		if made := pod.CreationTimestamp.Time; made.After(out.Created) {
			out.Created = made
		}
		out.Pods = append(out.Pods, repack.Pod{ID: id, Node: node, GPUs: n, Requests: topology.ShapeOf(pod).Requests()})
	}
	group, found := m.successor(sg, ordinal, out)
	if !found {
		return nil
	}
	out.Group = group
	return out
}

// successor is the replica as it is placed again: in the domain of its graph, and in those that rules about several replicas tie it to.
func (m *Movable) successor(sg *trellisv1alpha1.ScalingGroup, ordinal int, r *repack.Replica) (*placement.Group, bool) {
	g := &placement.Group{Required: topology.NoLevel, Preferred: topology.NoLevel, Apart: render.DistinctHosts(sg)}
	if t := sg.Spec.Topology; t != nil {
		levels := LevelsOf(t)
		required, tied := levels.Index(t.PackDomain), max(levels.Index(t.GraphPackDomain), levels.Index(t.SpreadDomain))
		if RoleOf(sg) != placement.NoRole {
			tied = max(tied, levels.Index(t.KVTransferDomain))
		}
		if sg.Spec.Multinode {
			g.Required = required
		} else {
			tied = max(tied, required) // single-node replicas share their domain
		}
		if tied != topology.NoLevel {
			path := levels.PathOf(m.Cluster.NodeLabels(r.Pods[0].Node)).Truncate(tied)
			if path.Level() < tied {
				return nil, false
			}
			g.Within = path
		}
	}
	build := render.NewBuilder(sg)
	for index := range render.PodsPerReplica(sg) {
		pod := m.Admit(build.Pod(int32(ordinal), index))
		g.Pods = append(g.Pods, placement.Pod{
			ID: fmt.Sprintf("move/%s/%s", pod.Namespace, pod.Name), Name: pod.Name, Shape: topology.ShapeOf(pod),
		})
	}
	return g, true
}
