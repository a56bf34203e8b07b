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
	// volumes are those of the cluster.
	volumes *volumes.Store
	// claims are the devices of the cluster and their claims.
	claims *claims.Store
	index  index
	// admission turns the pods that do not exist yet into what they would be.
	admission newpod.Objects
	options   placement.Options
	// problems of the levels of topologies, by name, as far as they were asked for.
	problems map[string][]problem
}

// NewPlanner counts the world's nodes and pods, and reserves capacity for pods that were released and are not bound yet.
func NewPlanner(w World) *Planner {
	store, devices := w.Volumes.store(w.AllVolumes), w.claimStore()
	p := &Planner{
		world: w, cluster: gang.NewCluster(w.affinity(), store, devices), volumes: store, claims: devices, index: newIndex(&w),
		admission: newpod.Objects{PriorityClasses: w.Priorities, RuntimeClasses: w.Runtimes, LimitRanges: w.Limits},
	}
	p.cluster.Ignore(topology.IgnoredResources(w.Ignored))
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

// inOrder makes the answer independent of the order in which objects were read.
func inOrder[T any](list []T, compare func(a, b T) int) []T {
	return slices.SortedFunc(slices.Values(list), compare)
}

func comparePods(a, b *corev1.Pod) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
}

// ListDomains makes refusals list every domain that was looked at.
func (p *Planner) ListDomains() { p.options.Domains = true }

// Begin opens a transaction that Rollback drops: every plan made in between.
func (p *Planner) Begin() { p.cluster.Begin() }

// Rollback drops the plans made since Begin.
func (p *Planner) Rollback() { p.cluster.Rollback() }

// Check returns what admission would refuse the deployment for: everything on creation, what may not change on an update.
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
	return append(errs, validation.GraphTopology(dgd, p.world.Topology(constraint.Profile(dgd)))...)
}

// Warnings returns what admission would warn of, and what the plan lacks.
func (p *Planner) Warnings(dgd *nvidiav1beta1.DynamoGraphDeployment) []field.Text {
	written := validation.FromHub(dgd)
	warnings := validation.GraphWarnings(written, p.world.Topology(constraint.Profile(dgd)), render.NotActedOn(dgd, written.AlphaOnly(), ""))
	warnings = append(warnings, validation.CliqueWarnings(dgd, p.world.Topology(constraint.Profile(dgd)), p.world.DomainsOf(dgd.Namespace))...)
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

// Plan places what of the deployment is not placed yet, and keeps what it takes for the plans that follow. The deployment must have passed
// Check; the error is for what only shows when its pods are made.
func (p *Planner) Plan(dgd *nvidiav1beta1.DynamoGraphDeployment) (Plan, error) {
	r, err := p.request(dgd)
	if err != nil {
		return Plan{}, err
	}
	return p.plan(r), nil
}

// plan places what is requested.
func (p *Planner) plan(r *request) Plan {
	r.asked = gang.NewRequest(r.observation)
	r.result = placement.PlanGraph(p.cluster, r.asked.Graph, p.options)
	p.planUnconstrained(r)
	return p.answer(r)
}

// request is one deployment on its way through the planner.
type request struct {
	// observation is what the planner is asked about: the pods that exist, and those that would be made.
	observation gang.Observation
	existing    []*corev1.Pod
	asked       *gang.Request
	result      placement.Result
	// freeGraphs and free are what the kube-scheduler places by itself.
	freeGraphs []placement.Demand
	free       []placement.ReplicaResult
}

// request resolves a deployment as the operator would, on top of what exists of it. Every provider gets the plan of the one that the
// planner serves alone: they differ in who carries it out.
func (p *Planner) request(dgd *nvidiav1beta1.DynamoGraphDeployment) (*request, error) {
	return p.requestWith(dgd, p.index.members)
}

// requestWith is request with the pods of a group as members returns them.
func (p *Planner) requestWith(dgd *nvidiav1beta1.DynamoGraphDeployment,
	members func(*trellisv1alpha1.ScalingGroup, bool) []*corev1.Pod) (*request, error) {
	existing, stated := p.index.groups[nameOf(dgd)], constraint.StatementOf(dgd)
	inputs := render.Inputs{
		Topology: p.world.Topology(profileOf(stated, existing)), Provider: specs.Gates.Name, Workload: render.ChooseWorkload(dgd),
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
	r := &request{observation: gang.Observation{DGD: dgd, Groups: groups, Profile: p.world.Topology(frozenProfile(groups)),
		Admission: p.admission, Record: p.recordOf(nameOf(dgd))}}
	for _, sg := range groups {
		pods := members(sg, existing[sg.Spec.Service] != nil)
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

// addClaims adds the volume claims that a deployment makes, where there are none of that name.
func (p *Planner) addClaims(g *render.Graph) {
	for _, claim := range g.Claims().Created {
		p.volumes.Expect(claim)
	}
}

// settled is a deployment of the cluster as the operator acts on it, and another one as it is.
func (p *Planner) settled(dgd *nvidiav1beta1.DynamoGraphDeployment,
	existing map[string]*trellisv1alpha1.ScalingGroup) *nvidiav1beta1.DynamoGraphDeployment {
	if p.world.Graph(nameOf(dgd)) != dgd {
		return dgd
	}
	return replicas.Carried(dgd, existing)
}

// profileOf is the ClusterTopology that a deployment is packed by: as frozen, or before that as stated.
func profileOf(stated constraint.Statement, existing map[string]*trellisv1alpha1.ScalingGroup) string {
	if len(existing) > 0 {
		return frozenProfile(slices.Collect(maps.Values(existing)))
	}
	return stated.Profile
}

func frozenProfile(groups []*trellisv1alpha1.ScalingGroup) string {
	for _, sg := range groups {
		if sg.Spec.Topology != nil {
			return sg.Spec.Topology.Profile
		}
	}
	return ""
}
