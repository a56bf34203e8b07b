// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package constraint

import (
	"slices"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
)

// Annotations that state the deployment-level constraint of a deployment.
const (
	AnnotationTopology  = "kai.scheduler/topology"
	AnnotationRequired  = "kai.scheduler/topology-required-placement"
	AnnotationPreferred = "kai.scheduler/topology-preferred-placement"
)

// Annotations lists the annotations that state a constraint.
func Annotations() []string {
	return []string{AnnotationTopology, AnnotationPreferred, AnnotationRequired}
}

// Annotated is the constraint that annotations state. Required and Preferred are node label keys.
type Annotated struct {
	Topology, Required, Preferred string
}

// FromAnnotations reads the constraint from the annotations of a deployment. An empty value counts as absent.
func FromAnnotations(dgd *nvidiav1beta1.DynamoGraphDeployment) Annotated {
	return Annotated{
		Topology:  dgd.Annotations[AnnotationTopology],
		Required:  dgd.Annotations[AnnotationRequired],
		Preferred: dgd.Annotations[AnnotationPreferred],
	}
}

// Set reports whether the annotations request a placement. The name of a topology alone is no request.
func (a Annotated) Set() bool { return a.Required != "" || a.Preferred != "" }

// DomainOf returns the name of the level with the label key; false when the topology has no such level.
func DomainOf(ct *grovev1alpha1.ClusterTopology, key string) (string, bool) {
	i := slices.IndexFunc(ct.Spec.Levels, func(l grovev1alpha1.TopologyLevel) bool { return l.Key == key })
	if i < 0 {
		return "", false
	}
	return ct.Spec.Levels[i].Domain, true
}

// WithoutAnnotations returns the deployment without constraint annotations, which no longer apply once the constraint is frozen. If the
// annotations request no placement, it returns the deployment itself.
func WithoutAnnotations(dgd *nvidiav1beta1.DynamoGraphDeployment) *nvidiav1beta1.DynamoGraphDeployment {
	if !FromAnnotations(dgd).Set() {
		return dgd
	}
	dgd = dgd.DeepCopy()
	for _, key := range Annotations() {
		delete(dgd.Annotations, key)
	}
	return dgd
}
