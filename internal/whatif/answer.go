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

// Plan is the result for one deployment.
type Plan struct {
	Namespace, Name string
	// Levels of the domain paths in this plan; empty if the deployment has no constraint.
	Levels topology.Levels
	// Domain of the entire graph: the planned domain, or the domain of its running pods; empty without a graph domain.
	Domain topology.Path
	// Score of all replicas whose pods have nodes, planned or bound; see [placement.Score]. 0 if no replica has nodes.
	Score float64
	// Transfer describes how prefill and decode replicas would share domains; nil if no KV transfer policy applies to them.
	Transfer *gang.Transfer
	// Replicas by component and ordinal.
	Replicas []Replica
	// Groups are the planned scaling groups, and Exist are their existing pods.
	Groups []*trellisv1alpha1.ScalingGroup
	Exist  []*corev1.Pod

	// admitted returns a new pod as the API server would store it.
	admitted func(*corev1.Pod) *corev1.Pod
	// shapes are the shapes of the pods to place, and request is the planner's input.
	shapes  []*topology.Shape
	request *request
}

// Placed reports whether every replica is placed.
func (g *Plan) Placed() bool {
	return !slices.ContainsFunc(g.Replicas, func(r Replica) bool { return r.Reason != nil })
}

// Packed counts the replicas that the operator places; the kube-scheduler places the others.
func (g *Plan) Packed() (n int) {
	for i := range g.Replicas {
		if !g.Replicas[i].Free {
			n++
		}
	}
	return n
}

// Waiting lists the refused replicas that the operator places. It omits refused replicas that the kube-scheduler places.
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

// Words returns the message about waiting replicas in the condition Placed; "" if all replicas are placed.
func (g *Plan) Words() string {
	waits := g.Waiting()
	if len(waits) == 0 {
		return ""
	}
	return gang.WaitingMessage(g.Packed()-len(waits), g.Packed(), waits)
}

// Replica describes where one replica is placed, or why it is not placed.
type Replica struct {
	Component string
	Ordinal   int
	// Free: the kube-scheduler places the replica.
	Free bool
	// Running: the replica's pods already have a place, so nothing was planned.
	Running bool
	// Domain is the narrowest domain above the host level that holds all of the replica's pods.
	Domain topology.Path
	Pods   []Pod
	// Preempts names the pods to preempt for the replica; nil if its capacity is free.
	Preempts *placement.Preemption
	// Reason why the replica is not placed; nil if it is placed.
	Reason *Reason
}

// Pod is a pod and its node. Node is "" for a released pod for which no capacity was found.
type Pod struct{ Name, Node string }

// Reason explains why a replica is not placed.
type Reason struct {
	Code, Message string
	// Refusal contains the planner's numbers; nil if the replica was not planned.
	Refusal *placement.Refusal
}

const beingReplaced = "some of its pods end or are gone: it is recreated as a unit, and then placed"

type replicaKey struct {
	component string
	ordinal   int
}

// answer builds the Plan from the existing pods, the planner's result and the refusals.
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
		for _, ordinal := range gang.Ordinals(sg, groupPods(sg, r.existing), r.observation.Record.Replicas(sg.Spec.Component)) {
			one := Replica{Component: sg.Spec.Component, Ordinal: ordinal, Free: !render.Gated(sg)}
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

// shapesOf lists the distinct shapes of all waiting pods, in the order of the graphs.
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
	return strings.Compare(a.Spec.Component, b.Spec.Component)
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

// groupPods returns the pods of one group.
func groupPods(sg *trellisv1alpha1.ScalingGroup, pods []*corev1.Pod) []*corev1.Pod {
	return slices.DeleteFunc(slices.Clone(pods), func(pod *corev1.Pod) bool { return !render.Member(pod, sg) })
}

// podsByReplica groups pods by scaling group and ordinal.
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

// planned copies the planner's result into the replica, and adds the replica's existing pods that the result does not contain.
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

// existing sets the result of a replica that was not planned, because it is already placed or is about to be recreated.
func (p *Planner) existing(one *Replica, levels topology.Levels, sg *trellisv1alpha1.ScalingGroup, pods []*corev1.Pod) {
	if len(pods) == 0 || len(pods) < render.ReplicaSize(sg, pods[0]) || slices.ContainsFunc(pods, gang.Leaving) {
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

// beingReplaced returns why a replica that is being recreated is not placed. If a pod does not terminate in time, the reason names this
// pod.
func (p *Planner) beingReplaced(pods []*corev1.Pod) *Reason {
	for _, pod := range pods {
		if why := gang.NotEnding(pod, p.world.Now, p.cluster.NodeReady); why != "" {
			return &Reason{Code: gang.CodePodsNotEnding, Message: why}
		}
	}
	return &Reason{Code: gang.CodeCreating, Message: beingReplaced}
}

// nodeOf returns the node to which a pod is bound, or on which capacity is reserved for the pod.
func (p *Planner) nodeOf(pod *corev1.Pod) string {
	if pod.Spec.NodeName != "" {
		return pod.Spec.NodeName
	}
	node, _ := p.cluster.Reserved(topology.PodID(pod))
	return node
}
