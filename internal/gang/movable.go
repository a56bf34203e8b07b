// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"fmt"
	"slices"
	"time"

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

// Movable finds replicas that may move to free a place for other gangs.
type Movable struct {
	Cluster *topology.Cluster
	// Admit returns a new pod as the API server would store it, and Priority returns the priority of an existing pod.
	Admit    func(*corev1.Pod) *corev1.Pod
	Priority func(*corev1.Pod) int32
	// GPUs counts the GPUs of a pod; false when they cannot be counted.
	GPUs func(*corev1.Pod) (int64, bool)
}

// Of returns the fully bound replicas of a group that a plan with the topology of the given place can move. pods are the group's pods. The
// caller must check that the deployment has the annotation [render.AnnotationMayMove].
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

// Replacing reports whether a group, as stored in the API, has outdated replicas, or has pods with an eviction request that is valid at the
// given time for a reason other than to free a place. pods are the group's pods.
func Replacing(sg *trellisv1alpha1.ScalingGroup, pods []*corev1.Pod, now time.Time) bool {
	return slices.ContainsFunc(pods, func(pod *corev1.Pod) bool {
		if render.Outdated(sg, pod) {
			return true
		}
		request, requested := leaving.EvictionOf(pod)
		counts, _ := request.Counts(now, true)
		return requested && request.For == "" && counts
	})
}

// GPUsWithoutClaims counts the GPUs of a pod; false for a pod with resource claims, because the devices of claims are not counted as free
// when the pod leaves.
func GPUsWithoutClaims(pod *corev1.Pod) (int64, bool) {
	shape, err := gpus.ShapeOf([]gpus.Pods{{Spec: &pod.Spec, Count: 1}}, gpus.Devices{})
	return shape.PerReplica, err == nil && len(pod.Spec.ResourceClaims) == 0
}

// placedBy returns the levels and the node selector by which the replicas of a group are placed.
func placedBy(sg *trellisv1alpha1.ScalingGroup) (topology.Levels, map[string]string) {
	if t := sg.Spec.Topology; t != nil {
		return LevelsOf(t), t.NodeSelector
	}
	return nil, nil
}

// replica returns one replica that may move; nil when not all of its pods are bound, when its GPUs cannot be counted, or when it cannot
// have a successor; see successor.
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

// successor returns the pods of a replica's successor as a group to place. Rules about several replicas, such as the graph's constraint,
// keep the successor in the replica's current domain. successor returns false if the replica is in no such domain.
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
