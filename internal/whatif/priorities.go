// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package whatif

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// Ranked is a component with the priority of its pods.
type Ranked struct {
	Component string
	// Class is the priority class of the pods; "" for none.
	Class    string
	Priority int32
}

// Priorities lists the waiting components of a deployment by priority, the lowest first. The deployment is planned with the lowest
// priority. Priorities returns nil if all components have the same priority.
func (p *Planner) Priorities(g *Plan) []Ranked {
	if g.request == nil {
		return nil
	}
	var list []Ranked
	for _, sg := range inOrder(g.Groups, byComponent) {
		waits := slices.ContainsFunc(g.request.asked.Graph.Components, func(c placement.Component) bool {
			return c.Name == sg.Spec.Component && len(c.Waiting) > 0
		})
		for i := range sg.Spec.Roles {
			if !waits || i > 0 {
				break
			}
			pod := &corev1.Pod{Spec: sg.Spec.Roles[i].Template.Spec}
			pod.Namespace = sg.Namespace
			list = append(list, Ranked{sg.Spec.Component, pod.Spec.PriorityClassName, topology.PriorityOf(p.admitted(pod.DeepCopy()))})
		}
	}
	slices.SortStableFunc(list, func(a, b Ranked) int { return cmp.Compare(a.Priority, b.Priority) })
	if len(list) == 0 || list[0].Priority == list[len(list)-1].Priority {
		return nil
	}
	return list
}

// Prioritized plans a deployment again, as if its components without a priority class had the given class. It returns how many more packed
// replicas would be placed at once, and describes the victims that would be preempted. All victims are preempted for the same gang, because
// a graph preempts for one gang at a time. Call it before the plan is rolled back.
func (p *Planner) Prioritized(g *Plan, class string) (more int, victims string) {
	p.Begin()
	defer p.Rollback()
	p.forget(g)
	dgd := g.request.observation.DGD.DeepCopy()
	dgd.Spec.PriorityClassName = class
	if len(p.Check(dgd)) > 0 {
		return 0, ""
	}
	r, err := p.requestWith(dgd, func(sg *trellisv1alpha1.ScalingGroup, exists bool) []*corev1.Pod {
		return slices.DeleteFunc(p.index.members(sg, exists), func(pod *corev1.Pod) bool { // the update recreates it at once
			return render.GateClosed(pod) && render.Outdated(sg, pod)
		})
	})
	if err != nil {
		return 0, ""
	}
	after := p.plan(r)
	for i := range after.Replicas {
		if who := after.Replicas[i].Preempts; who != nil && victims == "" {
			victims = gang.Victims(who)
		}
	}
	return len(g.Waiting()) - len(after.Waiting()), victims
}
