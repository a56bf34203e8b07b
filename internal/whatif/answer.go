// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package whatif

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// Plan is the answer for one deployment.
type Plan struct {
	Namespace, Name string
	// Levels that the paths below are made of; none when the deployment has no constraint.
	Levels topology.Levels
	// Domain is where the entire graph must be placed, as chosen or as its active members have it; empty without such a rule.
	Domain topology.Path
	// Score of all replicas that have their nodes, planned or bound: see [placement.Score]. 0 when none has.
	Score float64
	// Transfer describes how prefill and decode replicas would share domains; nil where no policy places them.
	Transfer *gang.Transfer
	// Replicas by component and ordinal.
	Replicas []Replica
	// Groups are the scaling groups the plan was made for, with the pods there are of them.
	Groups []*trellisv1alpha1.ScalingGroup
	Exist  []*corev1.Pod

	// admitted is a pod that would be made, as it would be stored.
	admitted func(*corev1.Pod) *corev1.Pod
	// shapes of the pods that the planner was asked to place, and how it was asked.
	shapes  []*topology.Shape
	request *request
}

// Placed reports whether every replica is placed.
func (g *Plan) Placed() bool {
	return !slices.ContainsFunc(g.Replicas, func(r Replica) bool { return r.Reason != nil })
}

// Packed counts the replicas that the operator places; the others are the kube-scheduler's.
func (g *Plan) Packed() (n int) {
	for i := range g.Replicas {
		if !g.Replicas[i].Free {
			n++
		}
	}
	return n
}

// Waiting are the replicas that the operator would place and does not. The others that are not placed are left to the kube-scheduler.
func (g *Plan) Waiting() []gang.Waiting {
	var list []gang.Waiting
	for i := range g.Replicas {
		if r := &g.Replicas[i]; r.Reason != nil && !r.Free {
			list = append(list, gang.Waiting{
				Component: r.Component, Ordinal: r.Ordinal, Code: r.Reason.Code, Message: r.Reason.Message, Refusal: r.Reason.Refusal,
			})
		}
	}
	return list
}

// Words is what the operator would say of them in the condition Placed; "" when all are placed.
func (g *Plan) Words() string {
	waits := g.Waiting()
	if len(waits) == 0 {
		return ""
	}
	return gang.WaitingMessage(g.Packed()-len(waits), g.Packed(), waits)
}

// Replica is one replica: where it sits or would, or why it does not.
type Replica struct {
	Component string
	Ordinal   int
	// Free: the kube-scheduler places it by itself.
	Free bool
	// Running: its pods are placed already; nothing was planned.
	Running bool
	// Domain is the narrowest one above single hosts that holds the pods.
	Domain topology.Path
	Pods   []Pod
	// Preempts is who would have to free capacity for it; nil when the capacity is free.
	Preempts *placement.Preemption
	// Reason is nil when it is placed.
	Reason *Reason
}

// Pod is one pod and its node; none yet of a pod that is released and for which no capacity was found.
type Pod struct{ Name, Node string }

// Reason explains why a replica is not placed.
type Reason struct {
	Code, Message string
	// Refusal has the numbers; nil when the planner was not asked.
	Refusal *placement.Refusal
}

const beingReplaced = "some of its pods end or are gone: it is recreated as a unit, and then placed"

type replicaKey struct {
	component string
	ordinal   int
}

// answer puts together what exists, what was planned, and what was refused.
func (p *Planner) answer(r *request) Plan {
	g := Plan{
		Namespace: r.observation.DGD.Namespace, Name: r.observation.DGD.Name, Levels: levelsOf(r.observation.Groups),
		Domain: r.asked.Graph.Anchor,
		Groups: r.observation.Groups, Exist: r.existing, admitted: p.admitted,
		shapes: shapesOf(append(slices.Clone(r.freeGraphs), r.asked.Graph)...), request: r,
	}
	if len(r.result.Domain) > 0 {
		g.Domain = r.result.Domain
	}
	planned := map[replicaKey]placement.ReplicaResult{}
	for _, result := range slices.Concat(r.result.Replicas, r.free) {
		planned[replicaKey{result.Component, result.Ordinal}] = result
	}
	blocked := map[replicaKey]*Reason{}
	for _, w := range slices.Concat(r.asked.Blocked, r.asked.Unadmitted) {
		blocked[replicaKey{w.Component, w.Ordinal}] = &Reason{Code: w.Code, Message: w.Message}
	}
	pods := podsByReplica(r.existing)
	for _, sg := range inOrder(r.observation.Groups, byComponent) {
		for _, ordinal := range gang.Ordinals(sg, groupPods(sg, r.existing), r.observation.Record.Replicas(sg.Spec.Service)) {
			one := Replica{Component: sg.Spec.Service, Ordinal: ordinal, Free: !render.Gated(sg)}
			result, isPlanned := planned[replicaKey{one.Component, ordinal}]
			existing, levels := pods[replicaKey{sg.Name, ordinal}], gang.LevelsOf(sg.Spec.Topology)
			switch {
			case blocked[replicaKey{one.Component, ordinal}] != nil:
				one.Reason = blocked[replicaKey{one.Component, ordinal}]
			case isPlanned:
				p.planned(&one, levels, result, existing)
			default:
				p.existing(&one, levels, sg, existing)
			}
			if one.Reason != nil && r.asked.Surplus(one.Component, ordinal) {
				continue
			}
			g.Replicas = append(g.Replicas, one)
		}
	}
	g.Score, g.Transfer = p.score(g), transferOf(&g)
	return g
}

// shapesOf lists the shapes of all pods that wait, in the order of the graphs.
func shapesOf(graphs ...placement.Demand) []*topology.Shape {
	var out []*topology.Shape
	seen := map[string]bool{}
	for _, g := range graphs {
		for _, component := range g.Components {
			for _, replica := range component.Waiting {
				for _, pod := range replica.Pods {
					if !seen[pod.Shape.Key()] {
						seen[pod.Shape.Key()] = true
						out = append(out, pod.Shape)
					}
				}
			}
		}
	}
	return out
}

func byComponent(a, b *trellisv1alpha1.ScalingGroup) int {
	return strings.Compare(a.Spec.Service, b.Spec.Service)
}

func levelsOf(groups []*trellisv1alpha1.ScalingGroup) topology.Levels {
	for _, sg := range groups {
		if sg.Spec.Topology != nil {
			return gang.LevelsOf(sg.Spec.Topology)
		}
	}
	return nil
}

func (p *Planner) score(g Plan) float64 {
	var replicas [][]string
	for _, replica := range g.Replicas {
		var nodes []string
		for _, pod := range replica.Pods {
			if pod.Node != "" {
				nodes = append(nodes, pod.Node)
			}
		}
		replicas = append(replicas, nodes)
	}
	return max(placement.Score(p.cluster, g.Levels, replicas), 0)
}

// groupPods are those of one group.
func groupPods(sg *trellisv1alpha1.ScalingGroup, pods []*corev1.Pod) []*corev1.Pod {
	return slices.DeleteFunc(slices.Clone(pods), func(pod *corev1.Pod) bool { return !render.Member(pod, sg) })
}

// podsByReplica sorts pods by the name of their group and the ordinal of their replica.
func podsByReplica(pods []*corev1.Pod) map[replicaKey][]*corev1.Pod {
	out := map[replicaKey][]*corev1.Pod{}
	for _, pod := range pods {
		if ordinal, _, ok := render.ReplicaOf(pod); ok {
			key := replicaKey{pod.Labels[render.LabelScalingGroup], int(ordinal)}
			out[key] = append(out[key], pod)
		}
	}
	return out
}

// planned fills in what the planner said, and the pods of the replica that are placed already.
func (p *Planner) planned(one *Replica, levels topology.Levels, result placement.ReplicaResult, existing []*corev1.Pod) {
	if result.Refusal != nil {
		one.Reason = &Reason{Code: result.Refusal.Code, Message: result.Refusal.Message(), Refusal: result.Refusal}
		return
	}
	for _, pod := range result.Pods {
		one.Pods = append(one.Pods, Pod{Name: pod.Name, Node: pod.Node})
	}
	for _, pod := range existing {
		if !slices.ContainsFunc(one.Pods, func(o Pod) bool { return o.Name == pod.Name }) {
			one.Pods = append(one.Pods, Pod{Name: pod.Name, Node: p.nodeOf(pod)})
		}
	}
	slices.SortFunc(one.Pods, func(a, b Pod) int {
		return cmp.Or(cmp.Compare(len(a.Name), len(b.Name)), strings.Compare(a.Name, b.Name))
	})
	one.Domain, one.Preempts = gang.PinnedDomain(p.cluster, levels, result), result.Preempts
}

// existing fills in a replica that nothing was planned for: it is placed, or about to be recreated.
func (p *Planner) existing(one *Replica, levels topology.Levels, sg *trellisv1alpha1.ScalingGroup, pods []*corev1.Pod) {
	if len(pods) == 0 || len(pods) < render.ReplicaSize(sg, pods[0]) || slices.ContainsFunc(pods, leaving) {
		one.Reason = p.beingReplaced(pods)
		return
	}
	one.Running = true
	var found placement.ReplicaResult
	for _, pod := range pods {
		node := p.nodeOf(pod)
		one.Pods = append(one.Pods, Pod{Name: pod.Name, Node: node})
		if node != "" {
			found.Pods = append(found.Pods, placement.PodResult{Node: node})
		}
	}
	one.Domain = gang.PinnedDomain(p.cluster, levels, found)
}

// beingReplaced is why a replica is not there: it is being recreated, and a pod that does not end may hold that up.
func (p *Planner) beingReplaced(pods []*corev1.Pod) *Reason {
	for _, pod := range pods {
		if why := gang.NotEnding(pod, p.world.Now, p.cluster.NodeReady); why != "" {
			return &Reason{Code: gang.CodePodsNotEnding, Message: why}
		}
	}
	return &Reason{Code: gang.CodeCreating, Message: beingReplaced}
}

// nodeOf is where a pod is bound, or where capacity is reserved for it.
func (p *Planner) nodeOf(pod *corev1.Pod) string {
	if pod.Spec.NodeName != "" {
		return pod.Spec.NodeName
	}
	node, _ := p.cluster.Reserved(topology.PodID(pod))
	return node
}

// leaving pods are about to be replaced.
func leaving(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
}
