// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package constraint

import (
	"slices"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
)

// Statement is the topology constraint that a deployment states, before it is resolved against a ClusterTopology. [StatementOf] reads it.
type Statement struct {
	// ByFields reports whether the deployment or any of its components has the field topologyConstraint.
	ByFields bool
	// Annotated is the constraint in annotations, which is ignored if ByFields is set.
	Annotated Annotated
	// ClusterTopology is the name of the ClusterTopology that the deployment refers to; "" for none.
	ClusterTopology string
	// Multinode reports whether a component has replicas of more than one pod. A default topology packs only multinode components.
	Multinode bool
}

// Any reports whether the deployment states a constraint, at either level, by fields or by annotations.
func (s Statement) Any() bool { return s.ByFields || s.Annotated.Set() }

// StatementOf reads the statement of a deployment; it is empty for nil.
func StatementOf(dgd *nvidiav1beta1.DynamoGraphDeployment) Statement {
	if dgd == nil {
		return Statement{}
	}
	s := Statement{ByFields: ByFields(dgd), Annotated: FromAnnotations(dgd)}
	s.Multinode = slices.ContainsFunc(dgd.Spec.Components, func(c nvidiav1beta1.ComponentSpec) bool {
		_, multinode := c.PodsPerReplica()
		return multinode
	})
	switch {
	case dgd.Spec.TopologyConstraint != nil:
		s.ClusterTopology = dgd.Spec.TopologyConstraint.ClusterTopologyName
	case !s.ByFields && s.Annotated.Set():
		s.ClusterTopology = s.Annotated.Topology
	}
	return s
}

// Stated reports whether the deployment states a topology constraint: see [Statement.Any].
func Stated(dgd *nvidiav1beta1.DynamoGraphDeployment) bool { return StatementOf(dgd).Any() }

// TopologyName is the name of the ClusterTopology that the deployment refers to; "" for none.
func TopologyName(dgd *nvidiav1beta1.DynamoGraphDeployment) string {
	return StatementOf(dgd).ClusterTopology
}

// ByFields reports whether the deployment or any of its components has the field topologyConstraint.
func ByFields(dgd *nvidiav1beta1.DynamoGraphDeployment) bool {
	return dgd.Spec.TopologyConstraint != nil ||
		slices.ContainsFunc(dgd.Spec.Components, func(c nvidiav1beta1.ComponentSpec) bool { return c.TopologyConstraint != nil })
}
