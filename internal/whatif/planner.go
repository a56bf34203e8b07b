// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package whatif

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/capacity"
	"github.com/trellis-k8s/trellis/internal/claims"
	"github.com/trellis-k8s/trellis/internal/constraint"
	"github.com/trellis-k8s/trellis/internal/field"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/newpod"
	"github.com/trellis-k8s/trellis/internal/nvlink"
	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/podlimit"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/replicas"
	"github.com/trellis-k8s/trellis/internal/topology"
	"github.com/trellis-k8s/trellis/internal/validation"
	"github.com/trellis-k8s/trellis/internal/volumes"
)

// Planner plans graphs one after the other on one world.
type Planner struct {
	world   World
	cluster *topology.Cluster
	// volumes holds the volumes of the cluster.
	volumes *volumes.Store
	// claims holds the devices of the cluster and their claims.
	claims *claims.Store
	index  index
	// admission applies the API server's defaults to pods that do not exist yet.
	admission newpod.Objects
	options   placement.Options
	// problems caches the problems of topology levels, by the name of the topology.
	problems map[string][]problem
}

// NewPlanner creates a planner on the world's nodes and pods. It reserves capacity for released pods that are not bound yet.
func NewPlanner(w World) *Planner {
	store, devices := w.Volumes.store(w.AllVolumes), w.claimStore()
	p := &Planner{
		world: w, cluster: gang.NewCluster(w.affinity(), store, devices), volumes: store, claims: devices, index: newIndex(&w),
		admission: newpod.Objects{PriorityClasses: w.Priorities, RuntimeClasses: w.Runtimes, LimitRanges: w.Limits},
	}
	p.cluster.Ignore(topology.IgnoredResources(w.Ignored))
	p.cluster.Leaving(w.Leaving)
	p.cluster.Serve(topology.ServedBy(w.Devices))
	p.cluster.IgnoreDeclaredFeatures(w.ignoresFeatures())
	for _, node := range inOrder(w.Nodes, func(a, b *corev1.Node) int { return strings.Compare(a.Name, b.Name) }) {
		p.cluster.SetNode(node)
	}
	for _, pod := range inOrder(w.Pods, comparePods) {
		if !capacity.IsPlaceholder(pod, "") {
			p.cluster.SetPod(p.ranked(pod))
		}
	}
	p.index.reserve(p.cluster)
	return p
}

// inOrder sorts a list, so that the result does not depend on the order in which objects were read.
func inOrder[T any](list []T, compare func(a, b T) int) []T {
	return slices.SortedFunc(slices.Values(list), compare)
}

func comparePods(a, b *corev1.Pod) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
}

// ListDomains makes the planner list every evaluated domain in a refusal.
func (p *Planner) ListDomains() { p.options.Domains = true }

// Begin starts a transaction of plans, which Rollback drops.
func (p *Planner) Begin() { p.cluster.Begin() }

// Rollback drops the plans made since Begin.
func (p *Planner) Rollback() { p.cluster.Rollback() }

// Check returns the errors with which admission would refuse to create the deployment or, if it exists, to update it.
func (p *Planner) Check(dgd *nvidiav1beta1.DynamoGraphDeployment) field.ErrorList {
	name := nameOf(dgd)
	if old := p.world.Graph(name); old != nil && old != dgd {
		errs := append(validation.GraphUpdate(validation.FromHub(dgd), validation.FromHub(old)), validation.PodLimit(dgd, old, 0)...)
		return append(errs, validation.ProviderUpdate(dgd, old, "")...)
	}
	if len(p.index.groups[name]) > 0 {
		return validation.Graph(validation.FromHub(constraint.WithoutAnnotations(dgd)))
	}
	check := validation.GraphCreate
	if p.world.Graph(name) == dgd {
		check = validation.Graph
	}
	errs := append(check(validation.FromHub(dgd)), validation.PodLimit(dgd, nil, 0)...)
	errs = append(errs, validation.TransferTopology(dgd, p.world.Topology(validation.TransferTopologyName(dgd)))...)
	return append(errs, validation.GraphTopology(dgd, p.world.Topology(constraint.TopologyName(dgd)))...)
}

// Warnings returns the warnings of admission, and warnings about the plan itself.
func (p *Planner) Warnings(dgd *nvidiav1beta1.DynamoGraphDeployment) []field.Text {
	written, ct := validation.FromHub(dgd), p.world.Topology(constraint.TopologyName(dgd))
	warnings := validation.GraphWarnings(written, ct, render.NotActedOn(dgd, written.AlphaOnly(), ""))
	warnings = append(warnings, validation.CliqueWarnings(dgd, ct, p.world.DomainsOf(dgd.Namespace))...)
	adapterOf := func(component string) string { return replicas.AdapterName(dgd.Name, component) }
	for _, kept := range validation.ReplicasKept(dgd, p.world.Graph(nameOf(dgd)), adapterOf) {
		warnings = append(warnings, field.Say("planned anyway: %s", kept))
	}
	if why := validation.OverLimit(dgd, podlimit.Default); why != "" {
		warnings = append(warnings, field.Say("planned up to the default of the operator only: %s", why))
	}
	warnings = append(warnings, field.Plain(p.MisplacedBy(dgd))...)
	return append(warnings, field.Plain(p.ofPods(dgd))...)
}

// Plan places the unplaced replicas of the deployment, and keeps their capacity reserved for later plans. The deployment must have passed
// Check. The error reports problems that Check does not find: another provider places the pods, or the pods cannot be rendered.
func (p *Planner) Plan(dgd *nvidiav1beta1.DynamoGraphDeployment) (Plan, error) {
	r, err := p.request(dgd)
	if err != nil {
		return Plan{}, err
	}
	return p.plan(r), nil
}

// plan places the replicas of a request.
func (p *Planner) plan(r *request) Plan {
	r.asked = gang.NewRequest(r.observation)
	r.result = placement.PlanGraph(p.cluster, r.asked.Graph, p.options)
	p.planUnconstrained(r)
	return p.answer(r)
}

// request holds the planner's input and result for one deployment.
type request struct {
	// observation is the input of the planner: the existing pods, and the pods that would be created.
	observation gang.Observation
	existing    []*corev1.Pod
	asked       *gang.Request
	result      placement.Result
	// freeGraphs are the demands of the replicas that the kube-scheduler places; free contains their results.
	freeGraphs []placement.Demand
	free       []placement.ReplicaResult
}

// request resolves a deployment and its existing objects as the operator would. It plans for the provider Gates: providers that follow
// Trellis' plans differ only in enforcement.
func (p *Planner) request(dgd *nvidiav1beta1.DynamoGraphDeployment) (*request, error) {
	return p.requestWith(dgd, p.index.members)
}

// requestWith is like request, but the function members supplies the existing pods of each group.
func (p *Planner) requestWith(dgd *nvidiav1beta1.DynamoGraphDeployment,
	members func(*trellisv1alpha1.ScalingGroup, bool) []*corev1.Pod) (*request, error) {
	existing, stated := p.index.groups[nameOf(dgd)], constraint.StatementOf(dgd)
	inputs := render.Inputs{
		Topology: p.world.Topology(topologyNameOf(stated, existing)), Provider: specs.Gates.Name, Workload: render.ChooseWorkload(dgd),
		Groups: existing, Frozen: map[string]*trellisv1alpha1.ResolvedTopology{}, Restarts: map[string]*trellisv1alpha1.Restart{},
	}
	for component, sg := range existing {
		if !specs.Named(sg.Spec.Provider).Planned {
			return nil, fmt.Errorf("its pods are created and placed by %s, not by Trellis", sg.Spec.Provider)
		}
		inputs.Frozen[component], inputs.Restarts[component] = sg.Spec.Topology, sg.Spec.Restart
		if sg.Spec.Multinode {
			inputs.Workload = sg.Spec.Workload
		}
	}
	if len(existing) == 0 && !stated.Any() {
		inputs.Defaults, inputs.Nodes = p.world.defaultTopologies(), p.world.Nodes
	}
	bounded, _ := podlimit.Bound(p.settled(dgd, existing), existing, podlimit.Default)
	resolved, err := render.Resolve(bounded, inputs)
	if err != nil {
		return nil, err
	}
	p.addClaims(resolved)
	groups := resolved.ScalingGroups()
	adopt(groups, existing)
	r := &request{observation: gang.Observation{DGD: dgd, Groups: groups, ClusterTopology: p.world.Topology(frozenTopologyName(groups)),
		Admission: p.admission, Record: p.recordOf(nameOf(dgd))}}
	for _, sg := range groups {
		pods := members(sg, existing[sg.Spec.Component] != nil)
		r.existing = append(r.existing, pods...)
		r.observation.Pods = append(r.observation.Pods, p.wanted(sg, pods, r.observation.Record)...)
	}
	r.observation.Pods = append(r.observation.Pods, r.existing...)
	for _, pod := range r.observation.Pods {
		for _, name := range render.ChannelsOf(&pod.Spec) {
			p.claims.Expect(nvlink.ChannelTemplate(pod.Namespace, name))
		}
	}
	return r, nil
}

// addClaims adds the volume claims that a deployment creates, unless they exist.
func (p *Planner) addClaims(g *render.Graph) {
	for _, claim := range g.Claims().Created {
		p.volumes.Expect(claim)
	}
}

// settled returns a deployment with the replica counts that the operator uses, if the deployment is an object of the world. It returns any
// other deployment unchanged.
func (p *Planner) settled(dgd *nvidiav1beta1.DynamoGraphDeployment,
	existing map[string]*trellisv1alpha1.ScalingGroup) *nvidiav1beta1.DynamoGraphDeployment {
	if p.world.Graph(nameOf(dgd)) != dgd {
		return dgd
	}
	return replicas.Carried(dgd, existing)
}

// topologyNameOf returns the name of the deployment's ClusterTopology. If scaling groups exist, the name is frozen in them; otherwise the
// deployment states it.
func topologyNameOf(stated constraint.Statement, existing map[string]*trellisv1alpha1.ScalingGroup) string {
	if len(existing) > 0 {
		return frozenTopologyName(slices.Collect(maps.Values(existing)))
	}
	return stated.ClusterTopology
}

func frozenTopologyName(groups []*trellisv1alpha1.ScalingGroup) string {
	for _, sg := range groups {
		if sg.Spec.Topology != nil {
			return sg.Spec.Topology.ClusterTopology
		}
	}
	return ""
}
