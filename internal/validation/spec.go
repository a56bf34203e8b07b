// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/field"
)

// maxClaims is how many entries spec.pvcs may have.
const maxClaims = 100

var accessModes = []corev1.PersistentVolumeAccessMode{
	corev1.ReadWriteOnce, corev1.ReadOnlyMany, corev1.ReadWriteMany, corev1.ReadWriteOncePod,
}

func claims(pvcs []nvidiav1alpha1.PVC) field.ErrorList {
	path := specPath.Child("pvcs")
	if n := len(pvcs); n > maxClaims {
		return one(field.TooMany(path, n, maxClaims))
	}
	var errs field.ErrorList
	seen := sets.New[string]()
	for i := range pvcs {
		p, c := path.Index(i), &pvcs[i]
		switch {
		case c.Name == nil || *c.Name == "":
			errs = append(errs, field.Required(p.Child("name"), "%s is required", p.Child("name")))
		case seen.Has(*c.Name):
			errs = append(errs, badValue(field.ErrorTypeDuplicate, p.Child("name"), *c.Name, "list each claim once"))
		default:
			seen.Insert(*c.Name)
		}
		errs = append(errs, createdClaim(p, c)...)
	}
	return errs
}

// createdClaim checks what a claim needs when it is to be made.
func createdClaim(path *field.Path, c *nvidiav1alpha1.PVC) field.ErrorList {
	var errs field.ErrorList
	required := func(name string, missing bool) {
		if missing {
			errs = append(errs, field.Required(path.Child(name),
				fmt.Sprintf("%s is required when create is true: when create is true, size, storageClass, and volumeAccessMode are required", name)))
		}
	}
	if c.Create != nil && *c.Create {
		required("storageClass", c.StorageClass == "")
		required("size", c.Size.IsZero())
		required("volumeAccessMode", c.VolumeAccessMode == "")
	}
	if c.Size.Sign() < 0 {
		errs = append(errs, field.Invalid(path.Child("size"), c.Size.String(), "must be more than 0"))
	}
	if c.VolumeAccessMode != "" && !slices.Contains(accessModes, c.VolumeAccessMode) {
		errs = append(errs, field.NotSupported(path.Child("volumeAccessMode"), short(string(c.VolumeAccessMode)), accessModes))
	}
	return errs
}

func backendFramework(dgd *nvidiav1beta1.DynamoGraphDeployment) field.ErrorList {
	known := []nvidiav1beta1.BackendFramework{
		nvidiav1beta1.BackendFrameworkSGLang, nvidiav1beta1.BackendFrameworkTRTLLM, nvidiav1beta1.BackendFrameworkVLLM,
	}
	if f := dgd.Spec.BackendFramework; f != "" && !slices.Contains(known, f) {
		return one(field.NotSupported(specPath.Child("backendFramework"), short(string(f)), known))
	}
	return nil
}

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

// restartOrder: a given order must name every component once.
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
