// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/graph"
	"github.com/trellis-k8s/trellis/internal/validation"
)

// problem is why nothing is applied for a deployment until somebody acts.
type problem struct {
	reason, message string
}

// decide resolves the deployment, or says what is wrong with it. The guard in front is the webhook's own validation, for objects that
// came in while no webhook was there. What is frozen in existing scaling groups wins over the object and over today's ClusterTopology.
func decide(o observed) (*graph.Graph, *problem) {
	if errs := guard(o); len(errs) > 0 {
		return nil, &problem{nvidiav1alpha1.ReasonInvalid, "the object would have been refused at admission: " + truncate(errs.ToAggregate().Error())}
	}
	in := graph.Inputs{Topology: o.profile, Frozen: map[string]*trellisv1alpha1.ResolvedTopology{}, Engine: o.engine.Name}
	for service, sg := range o.groups {
		in.Frozen[service] = sg.Spec.Topology
	}
	resolved, err := graph.Resolve(o.dgd, in)
	switch {
	case errors.Is(err, graph.ErrTopologyNotFound):
		return nil, &problem{nvidiav1alpha1.ReasonTopologyDefinitionNotFound, notFound(validation.Profile(o.dgd))}
	case err != nil:
		return nil, &problem{nvidiav1alpha1.ReasonInvalid, truncate(err.Error())}
	}
	return resolved, nil
}

func notFound(profile string) string {
	return fmt.Sprintf("ClusterTopology %q not found; nothing new is placed until it is created", profile)
}

// guard checks an object against the topology only before it was first turned into scaling groups, as admission does on create only.
func guard(o observed) field.ErrorList {
	errs := validation.Graph(o.dgd)
	if len(errs) == 0 && len(o.groups) == 0 && o.profile != nil {
		errs = validation.GraphTopology(o.dgd, o.profile, nil)
	}
	return errs
}

// truncate keeps a message within what a condition should hold.
func truncate(s string) string {
	if len(s) > 1500 {
		return s[:1497] + "..."
	}
	return s
}
