// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/assignment"
	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// NewCluster returns an empty cluster cache that finds the gang of each pod with [Of]. The binders add rules about the nodes on which pods
// can run.
func NewCluster(binders ...topology.Binder) *topology.Cluster {
	c := topology.NewCluster()
	c.GangOf, c.Binders = Of, binders
	return c
}

// NodesOf returns the node on which a pod has a reservation or, without a reservation, the node to which the pod is bound; nil for none.
func NodesOf(c *topology.Cluster, id string) []string {
	if node, has := c.Reserved(id); has {
		return []string{node}
	}
	if node, bound := c.Bound(id); bound {
		return []string{node}
	}
	return nil
}

// Score returns the lowest [placement.Score] among the graph's components that a constraint packs. It uses the nodes to which pods are
// bound, or on which they have a reservation.
func Score(c *topology.Cluster, o Observation) float64 {
	least := float64(placement.Unscored)
	pods := podsByGroup(o.Pods)
	for _, sg := range o.Groups {
		if !render.Gated(sg) || sg.Spec.Topology == nil {
			continue
		}
		var replicas [][]string
		for _, members := range podsByOrdinal(pods[string(sg.UID)]) {
			var hosts []string
			for _, pod := range members {
				if !Leaving(pod) {
					hosts = append(hosts, NodesOf(c, topology.PodID(pod))...)
				}
			}
			replicas = append(replicas, hosts)
		}
		if one := placement.Score(c, LevelsOf(sg.Spec.Topology), replicas); one != placement.Unscored && (least == placement.Unscored ||
			one < least) {
			least = one
		}
	}
	return least
}

// WillBeFollowed reports whether the replica of a deleted or terminated pod will be recreated. pods are the remaining pods of the group.
func WillBeFollowed(sg *trellisv1alpha1.ScalingGroup, gone *corev1.Pod, pods []*corev1.Pod, recorded assignment.Replicas) bool {
	ordinal, _, ok := render.ReplicaOf(gone)
	if !ok {
		return false
	}
	byOrdinal := podsByOrdinal(pods)
	if _, left := byOrdinal[int(ordinal)]; !left {
		byOrdinal[int(ordinal)] = nil
	}
	ordinals, _ := ordinalsOf(sg, byOrdinal, recorded, 0) // a replica that had a pod is listed despite the limit 0
	return slices.Contains(ordinals, int(ordinal))
}
