// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package dynamographdeployment

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/controller/adoption"
	"github.com/trellis-k8s/trellis/internal/limit"
	"github.com/trellis-k8s/trellis/internal/replicas"
)

// ownershipCondition names the objects that the deployment needs but another controller owns. The condition is absent if there never was a
// conflict. While another failure keeps children from being applied, their owners are not checked, and the condition stays unchanged.
func ownershipCondition(o observed, failure error) *condition {
	const kind = nvidiav1beta1.ConditionOwnershipConflict
	var conflicts []string
	for _, c := range append(allAs[*adoption.Conflict](failure), takenAdapters(o.dgd, o.adapters)...) {
		conflicts = append(conflicts, c.Error())
	}
	switch {
	case len(conflicts) > 0:
		slices.Sort(conflicts)
		return &condition{kind: kind, reason: nvidiav1beta1.ReasonOwnershipConflict, is: true,
			message: limit.Text(strings.Join(slices.Compact(conflicts), ". "), limit.Condition)}
	case failure == nil && meta.FindStatusCondition(o.dgd.Status.Conditions, kind) != nil:
		return no(kind, nvidiav1beta1.ReasonOwnershipConflictResolved, "Every object that the deployment needs belongs to it")
	}
	return nil
}

// takenAdapters returns a conflict for each scaling adapter whose name the deployment needs and whose owner is another controller. An
// adapter of an earlier deployment of this name is deleted, and an adapter without a controller is adopted, so neither is a conflict.
func takenAdapters(dgd *nvidiav1beta1.DynamoGraphDeployment,
	adapters []nvidiav1beta1.DynamoGraphDeploymentScalingAdapter) []*adoption.Conflict {
	var out []*adoption.Conflict
	for i := range adapters {
		a := &adapters[i]
		component := dgd.Component(a.Spec.DGDRef.ComponentName)
		needed := component != nil && replicas.WithAdapter(component) && a.Name == replicas.AdapterName(dgd.Name, component.Name)
		if needed && metav1.GetControllerOf(a) != nil && !metav1.IsControlledBy(a, dgd) && !isLeftover(a, dgd) {
			out = append(out, adoption.ConflictOver("DynamoGraphDeploymentScalingAdapter", a, "this deployment"))
		}
	}
	return out
}
