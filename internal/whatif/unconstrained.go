// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package whatif

import (
	corev1 "k8s.io/api/core/v1"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// planUnconstrained finds capacity for single pods without a constraint, which the kube-scheduler places. The kube-scheduler chooses their
// hosts, but the plan shows whether a host has capacity. Any domain can hold these pods, so they are planned last, after the gangs have
// their places.
func (p *Planner) planUnconstrained(r *request) {
	pods := podsByReplica(r.existing)
	for _, sg := range inOrder(r.observation.Groups, byComponent) {
		if render.Gated(sg) {
			continue
		}
		g := placement.Demand{Name: sg.Spec.Graph, Required: topology.NoLevel, Preferred: topology.NoLevel}
		component := placement.Component{Name: sg.Spec.Component, Required: topology.NoLevel, Preferred: topology.NoLevel}
		for _, ordinal := range gang.Ordinals(sg, groupPods(sg, r.existing), r.observation.Record.Replicas(sg.Spec.Component)) {
			pod := p.unplaced(sg, ordinal, pods[replicaKey{sg.Name, ordinal}])
			if pod == nil {
				continue
			}
			g.Priority = topology.PriorityOf(pod)
			g.Preempts = pod.Spec.PreemptionPolicy == nil || *pod.Spec.PreemptionPolicy != corev1.PreemptNever
			component.Waiting = append(component.Waiting, placement.Replica{
				Ordinal: ordinal, Pods: []placement.Pod{{ID: topology.PodID(pod), Name: pod.Name, Shape: topology.ShapeOf(pod)}},
			})
		}
		if len(component.Waiting) == 0 {
			continue
		}
		g.Components = []placement.Component{component}
		result := placement.PlanGraph(p.cluster, g, p.options)
		r.freeGraphs, r.free = append(r.freeGraphs, g), append(r.free, result.Replicas...)
	}
}

// unplaced returns the existing or future pod of a single-pod replica, if the pod has no node yet.
func (p *Planner) unplaced(sg *trellisv1alpha1.ScalingGroup, ordinal int, existing []*corev1.Pod) *corev1.Pod {
	switch {
	case len(existing) == 0:
		return p.admitted(render.BuildPod(sg, int32(ordinal), 0))
	case len(existing) > 1 || existing[0].Spec.NodeName != "" || gang.Leaving(existing[0]):
		return nil
	}
	return existing[0]
}
