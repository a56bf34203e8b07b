// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"

	"github.com/trellis-k8s/trellis/internal/constraint"
	"github.com/trellis-k8s/trellis/internal/field"
	"github.com/trellis-k8s/trellis/internal/render"
)

// scheduling refuses fields that bypass the operator's placement. Otherwise the API server would refuse each pod, and the user would not
// see these errors.
func scheduling(s component) field.ErrorList {
	path := s.podPath()
	var errs field.ErrorList
	if s.template().Spec.NodeName != "" && (s.multinode() || constraint.Stated(s.graph)) {
		errs = append(errs, field.Forbidden(path.Child("nodeName"),
			"the pods of a multinode %s, and of a deployment with a topology constraint, are placed by the operator; remove nodeName, or use "+
				"nodeSelector", field.WordComponent))
	}
	for i, gate := range s.template().Spec.SchedulingGates {
		if gate.Name == render.PlacementGate {
			errs = append(errs, field.Forbidden(path.Child("schedulingGates").Index(i).Child("name"),
				fmt.Sprintf("the gate %s is the operator's own; remove it", render.PlacementGate)))
		}
	}
	return errs
}
