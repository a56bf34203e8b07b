// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package whatif

import (
	corev1 "k8s.io/api/core/v1"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/graph"
	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// planFree finds room for what the operator leaves to the kube-scheduler: single pods without a constraint. Which host that one takes is
// its own affair; that there is one is what a plan can say. They come last: a plan that let them choose first would send gangs away for
// pods that are at home anywhere.
func (p *Planner) freeGraph(r *request) placement.Graph {
	g := placement.Graph{Name: r.observation.DGD.Name, Required: topology.NoLevel, Preferred: topology.NoLevel}
	pods := podsByReplica(r.observation.Pods)
	for _, sg := range r.groups {
		if graph.Gated(sg) {
			continue
		}
		service := placement.Service{Name: sg.Spec.Service, Required: topology.NoLevel, Preferred: topology.NoLevel}
		for ordinal := range int(sg.Spec.Replicas) {
			if pod := unplaced(sg, ordinal, pods[replicaKey{sg.Name, ordinal}]); pod != nil {
				service.Waiting = append(service.Waiting, placement.Replica{Ordinal: ordinal, Pods: []placement.Pod{*pod}})
			}
		}
		g.Services = append(g.Services, service)
	}
	return g
}

// unplaced is the one pod of a replica if it has no node: as it exists, or as it would be made.
func unplaced(sg *trellisv1alpha1.ScalingGroup, ordinal int, existing []*corev1.Pod) *placement.Pod {
	if len(existing) == 0 {
		pod := graph.BuildPod(sg, int32(ordinal), 0)
		return &placement.Pod{ID: "wanted/" + pod.Namespace + "/" + pod.Name, Name: pod.Name, Shape: topology.ShapeOf(pod)}
	}
	pod := existing[0]
	if len(existing) > 1 || pod.Spec.NodeName != "" || leaving(pod) {
		return nil
	}
	return &placement.Pod{ID: topology.PodID(pod), Name: pod.Name, Shape: topology.ShapeOf(pod)}
}
