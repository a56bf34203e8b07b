// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import "github.com/trellis-k8s/trellis/internal/field"

func sharedMemory(s component) field.ErrorList {
	m := s.alpha.SharedMemory
	if m == nil {
		return nil
	}
	path := s.path.Child("sharedMemorySize")
	switch {
	case m.Disabled && !m.Size.IsZero():
		return one(field.Forbidden(path, "size must not be set when disabled is true; remove one of the two"))
	case !m.Disabled && m.Size.IsZero():
		return one(field.Required(path, "%s is required when disabled is false", path))
	case m.Size.Sign() < 0:
		return one(field.Invalid(path, m.Size.String(), "must be more than 0"))
	}
	return nil
}

func sharedMemorySign(s component) field.ErrorList {
	if size := s.SharedMemorySize; s.alpha.SharedMemory == nil && size != nil && size.Sign() < 0 {
		return one(field.Invalid(s.path.Child("sharedMemorySize"), size.String(), "must not be negative; 0 turns shared memory off"))
	}
	return nil
}
