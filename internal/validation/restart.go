// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/field"
)

func restart(dgd *nvidiav1beta1.DynamoGraphDeployment) field.ErrorList {
	r, path := dgd.Spec.Restart, specPath.Child("restart")
	if r == nil {
		return nil
	}
	var errs field.ErrorList
	if r.ID == "" {
		errs = append(errs, field.Required(path.Child("id"), "spec.restart.id is required; each new id starts one restart"))
	}
	types := []nvidiav1beta1.RestartStrategyType{nvidiav1beta1.RestartStrategyParallel, nvidiav1beta1.RestartStrategySequential}
	if r.Strategy != nil && r.Strategy.Type != "" && !slices.Contains(types, r.Strategy.Type) {
		errs = append(errs, field.NotSupported(path.Child("strategy", "type"), short(string(r.Strategy.Type)), types))
	}
	return errs
}

// restartOrder requires a restart order to name every component once.
func restartOrder(dgd *nvidiav1beta1.DynamoGraphDeployment) field.ErrorList {
	if dgd.Spec.Restart == nil || dgd.Spec.Restart.Strategy == nil || len(dgd.Spec.Restart.Strategy.Order) == 0 {
		return nil
	}
	strategy, path := dgd.Spec.Restart.Strategy, specPath.Child("restart", "strategy", "order")
	if strategy.Type == nvidiav1beta1.RestartStrategyParallel {
		return one(field.Forbidden(path, "cannot be specified when strategy is parallel; remove it"))
	}
	var errs field.ErrorList
	seen := sets.New[string]()
	for i, name := range strategy.Order {
		if seen.Has(name) {
			errs = append(errs, badValue(field.ErrorTypeDuplicate, path.Index(i), name, "must be unique"))
		}
		seen.Insert(name)
		if dgd.Component(name) == nil {
			errs = append(errs, badValue(field.ErrorTypeNotFound, path.Index(i), name, "contains unknown %s: %s", field.WordComponent, short(name)))
		}
	}
	if len(seen) != len(dgd.Spec.Components) {
		errs = append(errs, field.Invalid(path, len(seen),
			"must have the same number of unique %s as the deployment, which has %d; or leave it out for alphabetical order", field.WordComponents,
			len(dgd.Spec.Components)))
	}
	return errs
}
