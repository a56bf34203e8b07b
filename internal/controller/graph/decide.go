// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/constraint"
	"github.com/trellis-k8s/trellis/internal/graph"
	"github.com/trellis-k8s/trellis/internal/limit"
	"github.com/trellis-k8s/trellis/internal/validation"
)

// problem is why nothing is applied for a deployment until somebody acts.
type problem struct {
	reason, message string
}

// decide resolves the deployment, or says what is wrong with it. The guard in front is the webhook's own validation, for objects that
// came in while no webhook was there. What is frozen in existing scaling groups wins over the object and over today's ClusterTopology.
func decide(o observed, platform graph.Platform) (*graph.Graph, *problem) {
	if errs := guard(o); len(errs) > 0 {
		return nil, &problem{nvidiav1beta1.ReasonInvalid, "the object would have been refused at admission: " + limit.Text(wording(o.dgd).Errors(errs).ToAggregate().Error(), limit.Condition)}
	}
	in := graph.Inputs{
		Topology: o.profile, Default: o.defaultTopology, Frozen: o.frozen(), Groups: o.groups,
		Provider: o.provider.Name, Workload: o.provider.workload, Restarts: restartsOf(o), Platform: platform,
	}
	resolved, err := graph.Resolve(o.settled, in)
	switch {
	case errors.Is(err, constraint.ErrTopologyNotFound):
		return nil, &problem{nvidiav1beta1.ReasonTopologyDefinitionNotFound, notFound(o.profileName())}
	case err != nil:
		return nil, &problem{nvidiav1beta1.ReasonInvalid, limit.Text(wording(o.dgd).Text(err.Error()), limit.Condition)}
	}
	stepWorkers(o, resolved)
	return resolved, nil
}

// frozen are the constraints that the scaling groups hold.
func (o observed) frozen() map[string]*trellisv1alpha1.ResolvedTopology {
	frozen := map[string]*trellisv1alpha1.ResolvedTopology{}
	for service, sg := range o.groups {
		frozen[service] = sg.Spec.Topology
	}
	return frozen
}

// constrained says whether the deployment has a constraint of its own: as frozen, or before that as stated.
func (o observed) constrained() bool {
	for _, sg := range o.groups {
		if t := sg.Spec.Topology; t != nil && !t.Automatic {
			return true
		}
	}
	return len(o.groups) == 0 && constraint.Stated(o.dgd)
}

// profileName is the name of its ClusterTopology, or empty.
func (o observed) profileName() string {
	for _, sg := range o.groups {
		if sg.Spec.Topology != nil {
			return sg.Spec.Topology.Profile
		}
	}
	if len(o.groups) > 0 {
		return ""
	}
	return constraint.Profile(o.dgd)
}

func notFound(profile string) string {
	return fmt.Sprintf("ClusterTopology %q not found; nothing new is placed until it is created", profile)
}

// guard checks an object against the topology only before it was first turned into scaling groups, as admission does on create only. From
// then on its annotations about topology do not count either.
func guard(o observed) field.ErrorList {
	dgd := o.dgd
	if len(o.groups) > 0 {
		dgd = constraint.WithoutAnnotations(dgd)
	}
	errs := validation.Graph(validation.FromHub(dgd))
	if len(errs) == 0 && len(o.groups) == 0 && o.profile != nil {
		errs = validation.GraphTopology(o.dgd, o.profile)
	}
	return errs
}

// wording is that of v1beta1, unless the deployment holds what only v1alpha1 can say: then it was written in that.
func wording(dgd *nvidiav1beta1.DynamoGraphDeployment) validation.Wording {
	version := nvidiav1beta1.GroupVersion.Version
	if dgd.Annotations[nvidiav1alpha1.AnnotationSpecMemory] != "" {
		version = nvidiav1alpha1.GroupVersion.Version
	}
	return validation.WordingOf(dgd, version)
}
