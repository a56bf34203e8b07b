// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"cmp"
	"slices"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/field"
)

// multinodeType allows multinode only for workers, because only the pods of a worker form one program. It accepts a component without a
// type. It also accepts endpoint pickers, because the check endpointPicker already refuses multinode for them.
func multinodeType(s component) field.ErrorList {
	kind := s.explicitType()
	if !s.multinode() || slices.Contains(multinodeTypes, kind) {
		return nil
	}
	return one(field.Invalid(s.path.Child("multinode"), s.nodes(),
		"a replica of %[1]s %[2]s cannot span several nodes; remove multinode and raise replicas, or set %[1]s worker", field.WordType,
		short(kind)))
}

// multinodeTypes are the types that multinodeType accepts: the types of workers, no type, and the endpoint picker.
var multinodeTypes = []string{
	"", string(nvidiav1beta1.ComponentTypeWorker), string(nvidiav1beta1.ComponentTypePrefill), string(nvidiav1beta1.ComponentTypeDecode),
	string(nvidiav1beta1.ComponentTypeEPP),
}

// explicitType returns the type of the component, including a v1alpha1 type that v1beta1 does not have; "" for none.
func (s component) explicitType() string { return cmp.Or(string(s.Type), s.alpha.ComponentType) }
