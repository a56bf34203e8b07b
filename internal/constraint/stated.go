// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package constraint

import (
	"slices"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
)

// Stated says whether the deployment states a topology constraint, at either level, by fields or by annotations.
func Stated(dgd *nvidiav1beta1.DynamoGraphDeployment) bool {
	return dgd != nil && (ByFields(dgd) || FromAnnotations(dgd).Set())
}

// ByFields says whether the deployment or a component of it has the field topologyConstraint.
func ByFields(dgd *nvidiav1beta1.DynamoGraphDeployment) bool {
	return dgd.Spec.TopologyConstraint != nil ||
		slices.ContainsFunc(dgd.Spec.Components, func(c nvidiav1beta1.ComponentSpec) bool { return c.TopologyConstraint != nil })
}

// Profile is the name of the ClusterTopology the deployment refers to, or empty.
func Profile(dgd *nvidiav1beta1.DynamoGraphDeployment) string {
	switch {
	case dgd == nil:
		return ""
	case dgd.Spec.TopologyConstraint != nil:
		return dgd.Spec.TopologyConstraint.ClusterTopologyName
	case ByFields(dgd) || !FromAnnotations(dgd).Set():
		return ""
	}
	return FromAnnotations(dgd).Topology
}

// WithoutAnnotations is the deployment without the annotations that state a constraint: once taken over they do not count any more. What does
// not differ is shared.
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
