// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/field"
)

// maxClaims is the maximum number of entries in spec.pvcs.
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

// createdClaim checks that a claim has all fields that Trellis needs to create it.
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
