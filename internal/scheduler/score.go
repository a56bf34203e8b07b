// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/trellis-k8s/trellis/internal/graph"
	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// score is that of all replicas of the graph that a constraint packs, by the nodes that their pods are bound to or have reserved. Called with
// the lock held.
func (s *Scheduler) score(o observed) float64 {
	var levels topology.Levels
	var replicas [][]string
	pods := podsByGroup(o.pods)
	for _, sg := range o.groups {
		if !graph.Gated(sg) || sg.Spec.Topology == nil {
			continue
		}
		levels = LevelsOf(sg.Spec.Topology)
		for _, members := range podsByOrdinal(pods[string(sg.UID)]) {
			replicas = append(replicas, s.hostsOf(members))
		}
	}
	return placement.Score(s.cluster, levels, replicas)
}

// hostsOf are the nodes of the pods that have one, bound or reserved.
func (s *Scheduler) hostsOf(pods []*corev1.Pod) []string {
	nodes := make([]string, 0, len(pods))
	for _, pod := range pods {
		if leaving(pod) {
			continue
		}
		nodes = append(nodes, s.nodesOf(topology.PodID(pod))...)
	}
	return nodes
}
