// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package whatif

import (
	"k8s.io/apimachinery/pkg/types"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/assignment"
)

// RecordOf returns the record of an existing deployment; nil without a record.
func (w *World) RecordOf(dgd *nvidiav1beta1.DynamoGraphDeployment) *assignment.Record {
	for _, one := range w.Placements {
		if one.Namespace == dgd.Namespace && one.Name == dgd.Name && one.Spec.DeploymentUID == string(dgd.UID) {
			return assignment.Decode(&one.Spec)
		}
	}
	return nil
}

// recordOf returns the record of the deployment with this name; nil without a deployment or record.
func (p *Planner) recordOf(name types.NamespacedName) *assignment.Record {
	if dgd := p.world.Graph(name); dgd != nil {
		return p.world.RecordOf(dgd)
	}
	return nil
}
