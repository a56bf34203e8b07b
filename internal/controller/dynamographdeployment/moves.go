// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package dynamographdeployment

import (
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
)

// movedCondition reports the progress of the moves of all components; nil when no replica has to leave its nodes.
func movedCondition(o observed) *condition {
	reason := nvidiav1beta1.ReasonMoving
	var parts []string
	for _, name := range sortedNames(o) {
		sg := o.groups[name]
		if sg == nil {
			continue
		}
		c := meta.FindStatusCondition(sg.Status.Conditions, trellisv1alpha1.ConditionMoved)
		if c == nil || c.Status != metav1.ConditionFalse {
			continue
		}
		if c.Reason == trellisv1alpha1.ReasonMoveWaits {
			reason = nvidiav1beta1.ReasonMoveWaits
		}
		parts = append(parts, c.Message)
	}
	if len(parts) == 0 {
		return nil
	}
	return no(nvidiav1beta1.ConditionMoved, reason, strings.Join(parts, ". "))
}
