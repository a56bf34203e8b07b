// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package dynamographdeployment

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/constraint"
	"github.com/trellis-k8s/trellis/internal/field"
	"github.com/trellis-k8s/trellis/internal/limit"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/validation"
)

// problem is the reason why nothing is applied for a deployment until a person acts.
type problem struct {
	reason, message string
}

// decide resolves the deployment, or returns the problem that prevents this. It first repeats the webhook's validation, because the
// deployment may have been created while no webhook was available. Constraints that are frozen in scaling groups override the deployment
// and the current ClusterTopology.
func decide(o observed, platform render.Platform) (*render.Graph, *problem) {
	written := validation.FromHub(o.dgd)
	if errs := guard(o, written); len(errs) > 0 {
		return nil, &problem{nvidiav1beta1.ReasonInvalid, "the object would have been refused at admission: " +
			limit.Text(errs.In(versionOf(o.dgd)).ToAggregate().Error(), limit.Condition)}
	}
	alpha := written.AlphaOnly()
	resolved := constraint.Of(o.dgd, o.stated, constraint.Sources{Topology: o.clusterTopology, Defaults: o.defaults, Nodes: o.nodes,
		Frozen: o.frozen(), OnlyRoutes: o.provider.Name != "" && !specs.Named(o.provider.Name).Planned})
	in := render.Inputs{
		Alpha: &alpha, Constraint: &resolved, Groups: o.groups,
		Provider: o.provider.Name, Workload: o.provider.workload, Restarts: restartsOf(o), Platform: platform, Rollback: rollbackOf(o),
	}
	wanted, err := render.Resolve(o.settled, in)
	switch {
	case errors.Is(err, constraint.ErrTopologyNotFound):
		return nil, &problem{nvidiav1beta1.ReasonTopologyDefinitionNotFound, notFound(o.topologyName())}
	case err != nil:
		return nil, &problem{nvidiav1beta1.ReasonInvalid, limit.Text(field.ErrorIn(err, versionOf(o.dgd)), limit.Condition)}
	}
	stepWorkers(o, wanted)
	deferRestart(o, wanted)
	return wanted, nil
}

// frozen returns the constraints of the scaling groups by component. After a refresh, it returns the new constraints.
func (o observed) frozen() map[string]*trellisv1alpha1.ResolvedTopology {
	if o.refreshed != nil {
		return o.refreshed
	}
	return constraintsIn(o.groups)
}

// constrained reports whether the deployment has a constraint that is not automatic. It checks the frozen constraints of the deployment's
// groups, or without groups the stated constraint.
func (o observed) constrained() bool {
	for _, sg := range o.groups {
		if t := sg.Spec.Topology; t != nil && !t.Automatic {
			return true
		}
	}
	return len(o.groups) == 0 && o.stated.Any()
}

// topologyName returns the name of the deployment's ClusterTopology, from the frozen constraint or, without groups, from the stated
// constraint; "" for none.
func (o observed) topologyName() string {
	for _, component := range slices.Sorted(maps.Keys(o.groups)) {
		if t := o.groups[component].Spec.Topology; t != nil {
			return t.ClusterTopology
		}
	}
	if len(o.groups) > 0 {
		return ""
	}
	return o.stated.ClusterTopology
}

func notFound(name string) string {
	return fmt.Sprintf("ClusterTopology %q not found, nor a ClusterTopologyBinding of that name; nothing new is placed until it is "+
		"created", name)
}

// guard validates a deployment. Until the deployment has scaling groups, guard also validates it against its topology, as admission does on
// create. Once the deployment has scaling groups, guard ignores its topology annotations.
func guard(o observed, written validation.Written) field.ErrorList {
	if len(o.groups) > 0 {
		written.DynamoGraphDeployment = constraint.WithoutAnnotations(o.dgd)
	}
	errs := validation.Graph(written)
	if len(o.groups) == 0 && o.clusterTopology != nil {
		errs = append(errs, validation.GraphTopology(o.dgd, o.clusterTopology)...)
	}
	return errs
}

// versionOf returns the version in which the deployment was written: v1alpha1 if it has fields that only v1alpha1 can express, otherwise
// v1beta1.
func versionOf(dgd *nvidiav1beta1.DynamoGraphDeployment) string {
	if dgd.Annotations[nvidiav1alpha1.AnnotationSpecMemory] != "" {
		return nvidiav1alpha1.GroupVersion.Version
	}
	return nvidiav1beta1.GroupVersion.Version
}
