// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"cmp"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/constraint"
	"github.com/trellis-k8s/trellis/internal/field"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
)

// Inputs are the inputs of Resolve in addition to the deployment.
type Inputs struct {
	// Alpha holds the deployment's fields that only v1alpha1 has. If it is nil, Resolve reads these fields from the deployment.
	Alpha *nvidiav1alpha1.AlphaOnly
	// Constraint holds the constraint of every component. If it is nil, Resolve derives it from Topology, Defaults, Nodes and Frozen;
	// otherwise Resolve ignores these four fields.
	Constraint *constraint.Resolved
	// Topology is the current ClusterTopology that the deployment names; nil if it does not exist.
	Topology *grovev1alpha1.ClusterTopology
	// Defaults are the cluster's default topologies, for deployments without a constraint. Nodes are the cluster's nodes. See
	// [constraint.Sources].
	Defaults []*grovev1alpha1.ClusterTopology
	Nodes    []*corev1.Node
	// Frozen maps component names to the constraint in the spec of each existing ScalingGroup. Frozen overrides Topology. A nil value means
	// that the component is frozen as unconstrained.
	Frozen map[string]*trellisv1alpha1.ResolvedTopology
	// Groups maps component names to the existing ScalingGroups. A component with unchanged input keeps the roles and the revision of its
	// ScalingGroup.
	Groups map[string]*trellisv1alpha1.ScalingGroup
	// Provider is the name of the provider that binds the gangs.
	Provider string
	// Workload names the maker of the pods of multinode components; see ChooseWorkload.
	Workload string
	// Restarts maps component names to the restart for which the component's replicas are made. A component that was never restarted has no
	// entry.
	Restarts map[string]*trellisv1alpha1.Restart
	// Rollback of the workers; nil for none.
	Rollback *Rollback
	// Platform holds the addresses of the services that all graphs share.
	Platform Platform
}

// Graph is a resolved deployment: all decisions that do not depend on the nodes' capacity.
type Graph struct {
	Name, Namespace string
	Provider        string
	// Workload names the maker of the pods of multinode components; "" for Trellis itself.
	Workload string
	// Components are sorted by name.
	Components []Component
	// SharedRollout is the strategy for replacing the workers that InStep returns; a worker's own strategy overrides it. See
	// rollout.Shared.
	SharedRollout trellisv1alpha1.RolloutStrategy
	// Moves is the policy for moving replicas away from nodes that are drained or removed.
	Moves trellisv1alpha1.MovePolicy
	// Generation is the worker generation that the deployment requests; "" for none. RolledBack means that this generation was aborted, and
	// that the workers have an earlier generation.
	Generation string
	RolledBack bool
	// WorkersInput is a hash of the user's input for the workers.
	WorkersInput string

	extras extras
	// queue is the KAI Scheduler queue that the deployment names, for pods outside gangs.
	queue string
	// kueueQueue is the Kueue queue that the deployment names.
	kueueQueue string
	// Undecided lists the components for which several default topologies fit equally well.
	Undecided []constraint.Undecided
}

// Component is one component of a graph.
type Component struct {
	// Name as the user wrote it.
	Name string
	// GroupName is <deployment>-<lower-cased component>, shortened with a hash if pod names would otherwise be too long. It is the name of
	// the ScalingGroup and the prefix of the pod names. ServiceName is the name of the Kubernetes Service, which may be longer.
	GroupName, ServiceName string
	ComponentType          string
	Replicas               int32
	// MinAvailable is the number of replicas in the base gang; nil: one.
	MinAvailable *int32
	Multinode    bool
	// NodeCount is the number of pods of one replica.
	NodeCount int32
	// Topology is the resolved constraint; nil when the deployment has none.
	Topology *trellisv1alpha1.ResolvedTopology
	// Roles of a replica's pods, in the order of pod indexes.
	Roles []trellisv1alpha1.Role
	// Revision is a hash of Roles. Input identifies the input from which Roles were made.
	Revision string
	Input    *trellisv1alpha1.TemplateInput
	// Adopted: the roles are stored roles, and their input cannot be compared with the deployment's input.
	Adopted bool
	// Rollout is the strategy by which replicas are replaced when Revision or Restart changes.
	Rollout trellisv1alpha1.RolloutStrategy
	Restart *trellisv1alpha1.Restart
	// StatesBounds: the user has set the bounds in Rollout explicitly.
	StatesBounds bool
	// Step of the rollout to the workers' new generation. The caller sets it.
	Step *trellisv1alpha1.RolloutStep
	// Labels and Annotations for all objects of the component.
	Labels, Annotations map[string]string
}

// Resolve resolves a deployment to its graph. The error joins one *Error per wrong field.
func Resolve(dgd *nvidiav1beta1.DynamoGraphDeployment, in Inputs) (*Graph, error) {
	if err := in.complete(dgd); err != nil {
		return nil, err
	}
	alpha := in.Alpha
	names, errs := nameComponents(dgd)
	for _, p := range in.Constraint.Problems {
		errs = append(errs, &Error{Path: p.Path, Message: p.Message, Kind: p.Kind})
	}

	g := &Graph{Name: dgd.Name, Namespace: dgd.Namespace, Provider: in.Provider, Workload: in.Workload,
		kueueQueue: dgd.Labels[LabelKueueQueue], Undecided: in.Constraint.Undecided}
	if spec := specs.Named(in.Provider); spec.Planned && spec.Queued {
		g.queue = cmp.Or(dgd.Annotations[AnnotationQueue], dgd.Labels[LabelQueue])
	}
	renderings := renderingsOf(dgd, alpha, in)
	g.WorkersInput = workersInput(renderings)
	pods, generation, rolledBack := render(renderings, InGenerations(dgd), in.Rollback, g.WorkersInput)
	g.Generation, g.RolledBack = generation, rolledBack
	for _, r := range renderings {
		name, c := r.name, r.spec
		component, componentErrs := resolveComponent(r, pods[name])
		errs = append(errs, componentErrs...)
		errs = append(errs, checkAlpha(alpha.Deployment, PathOf(dgd, name), name)...)
		component.GroupName, component.ServiceName = names[name].group, names[name].component
		component.Topology = in.Constraint.Topologies[name]
		component.Restart = in.Restarts[name]
		component.Rollout, componentErrs = resolveRollout(dgd, c, &component)
		errs = append(errs, componentErrs...)
		g.Components = append(g.Components, component)
	}
	errs = append(errs, g.resolveShared(dgd)...)
	if len(errs) == 0 {
		errs = g.addExtras(dgd, alpha)
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return g, nil
}

// complete sets the inputs that the caller has omitted.
func (in *Inputs) complete(dgd *nvidiav1beta1.DynamoGraphDeployment) error {
	if in.Alpha == nil {
		alpha, err := nvidiav1alpha1.AlphaOnlyOf(dgd)
		if err != nil {
			return invalid(field.NewPath("metadata", "annotations").Key(nvidiav1alpha1.AnnotationSpecMemory), "%s; remove the annotation", err)
		}
		in.Alpha = &alpha
	}
	if in.Constraint == nil {
		sources := constraint.Sources{Topology: in.Topology, Defaults: in.Defaults, Nodes: in.Nodes, Frozen: in.Frozen,
			OnlyRoutes: in.Provider != "" && !specs.Named(in.Provider).Planned}
		resolved := constraint.Of(dgd, constraint.StatementOf(dgd), sources)
		in.Constraint = &resolved
	}
	return nil
}

// renderingsOf returns the components of a deployment before their pods are rendered, sorted by name.
func renderingsOf(dgd *nvidiav1beta1.DynamoGraphDeployment, alpha *nvidiav1alpha1.AlphaOnly, in Inputs) []*rendering {
	out := make([]*rendering, 0, len(dgd.Spec.Components))
	for _, c := range Components(dgd) {
		t := newTemplater(dgd, c, alpha.Services[c.Name])
		t.platform, t.provider = in.Platform, in.Provider
		nodes, _ := c.PodsPerReplica()
		out = append(out, &rendering{templater: t, nodes: nodes, input: t.input(), stored: in.Groups[c.Name]})
	}
	return out
}

func resolveComponent(r *rendering, pods replicaPods) (Component, []error) {
	spec := r.spec
	s := Component{Name: spec.Name, ComponentType: r.componentType, Replicas: 1, MinAvailable: spec.MinAvailable, Input: r.input}
	s.NodeCount, s.Multinode = spec.PodsPerReplica()
	var errs []error
	if spec.Replicas != nil {
		s.Replicas = *spec.Replicas
	}
	if s.Replicas < 0 {
		errs = append(errs, invalid(PathOf(r.dgd, spec.Name).Child("replicas"), "must not be negative, is %d", s.Replicas))
	}
	s.Labels, s.Annotations = r.labels(), r.annotations()
	s.Roles, s.Revision, s.Adopted = pods.roles, pods.revision, pods.adopted
	if pods.input != nil {
		s.Input = pods.input
	}
	return s, append(append(errs, r.errs...), pods.errs...)
}

// Components returns the components of a deployment, sorted by name.
func Components(dgd *nvidiav1beta1.DynamoGraphDeployment) []*nvidiav1beta1.ComponentSpec {
	out := make([]*nvidiav1beta1.ComponentSpec, 0, len(dgd.Spec.Components))
	for i := range dgd.Spec.Components {
		out = append(out, &dgd.Spec.Components[i])
	}
	slices.SortStableFunc(out, func(a, b *nvidiav1beta1.ComponentSpec) int { return cmp.Compare(a.Name, b.Name) })
	return out
}
