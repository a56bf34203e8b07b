// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package whatif

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/graph"
	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/scheduler"
	"github.com/trellis-k8s/trellis/internal/topology"
	"github.com/trellis-k8s/trellis/internal/validation"
)

// Planner plans graphs one after the other on one world.
type Planner struct {
	world   World
	cluster *topology.Cluster
	index   index
}

// NewPlanner counts the world's nodes and pods, and reserves room for pods that were let go and are not bound yet.
func NewPlanner(w World) *Planner {
	p := &Planner{world: w, cluster: topology.NewCluster(), index: newIndex(&w)}
	for _, node := range inOrder(w.Nodes, func(a, b *corev1.Node) int { return strings.Compare(a.Name, b.Name) }) {
		p.cluster.SetNode(node)
	}
	for _, pod := range inOrder(w.Pods, comparePods) {
		p.cluster.SetPod(pod)
	}
	p.index.reserve(p.cluster)
	return p
}

// inOrder makes the answer independent of the order in which objects were read.
func inOrder[T any](list []T, compare func(a, b T) int) []T {
	return slices.SortedFunc(slices.Values(list), compare)
}

func comparePods(a, b *corev1.Pod) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
}

// Begin opens a transaction that Rollback drops: every plan made in between.
func (p *Planner) Begin() { p.cluster.Begin() }

// Rollback drops the plans made since Begin.
func (p *Planner) Rollback() { p.cluster.Rollback() }

// Check returns what admission would refuse the deployment for: everything on creation, what may not change on an update.
func (p *Planner) Check(dgd *nvidiav1alpha1.DynamoGraphDeployment) field.ErrorList {
	name := nameOf(dgd)
	if old := p.world.Graph(name); old != nil && old != dgd {
		return validation.GraphUpdate(dgd, old)
	}
	errs := validation.Graph(dgd)
	if len(p.index.groups[name]) == 0 {
		errs = append(errs, validation.GraphTopology(dgd, p.world.Topology(validation.Profile(dgd)), nil)...)
	}
	return errs
}

// Warnings returns what admission would warn of.
func (p *Planner) Warnings(dgd *nvidiav1alpha1.DynamoGraphDeployment) []string {
	return validation.GraphWarnings(dgd, p.world.Topology(validation.Profile(dgd)), graph.NotActedOn(dgd))
}

// Plan places what of the deployment is not placed yet, and keeps what it takes for the plans that follow. The deployment must have passed
// Check; the error is for what only shows when its pods are made.
func (p *Planner) Plan(dgd *nvidiav1alpha1.DynamoGraphDeployment) (Graph, error) {
	r, err := p.request(dgd)
	if err != nil {
		return Graph{}, err
	}
	r.asked = scheduler.NewRequest(r.observation)
	r.result = placement.PlanGraph(p.cluster, r.asked.Graph, placement.Options{})
	r.freeGraph = p.freeGraph(r)
	r.free = placement.PlanGraph(p.cluster, r.freeGraph, placement.Options{})
	return p.answer(r), nil
}

// request is one deployment on its way through the planner.
type request struct {
	observation scheduler.Observation
	groups      []*trellisv1alpha1.ScalingGroup
	asked       scheduler.Request
	result      placement.Result
	// freeGraph and free are the replicas that the kube-scheduler places by itself.
	freeGraph placement.Graph
	free      placement.Result
}

// request resolves a deployment as the operator would, on top of what exists of it.
func (p *Planner) request(dgd *nvidiav1alpha1.DynamoGraphDeployment) (*request, error) {
	existing := p.index.groups[nameOf(dgd)]
	inputs := graph.Inputs{
		Topology: p.world.Topology(validation.Profile(dgd)), Frozen: map[string]*trellisv1alpha1.ResolvedTopology{}, Engine: graph.EngineGates,
	}
	for service, sg := range existing {
		inputs.Frozen[service] = sg.Spec.Topology
	}
	resolved, err := graph.Resolve(dgd, inputs)
	if err != nil {
		return nil, err
	}
	r := &request{groups: resolved.ScalingGroups()}
	adopt(r.groups, existing)
	r.observation = scheduler.Observation{DGD: dgd, Groups: r.groups, Profile: p.world.Topology(profileOf(r.groups))}
	for _, sg := range r.groups {
		r.observation.Pods = append(r.observation.Pods, p.index.members(sg, existing[sg.Spec.Service] != nil)...)
	}
	return r, nil
}

// profileOf is the ClusterTopology that the groups were resolved by.
func profileOf(groups []*trellisv1alpha1.ScalingGroup) string {
	for _, sg := range groups {
		if sg.Spec.Topology != nil {
			return sg.Spec.Topology.Profile
		}
	}
	return ""
}
