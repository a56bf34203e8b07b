// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"errors"
	"fmt"
)

// ErrInvalid is the kind of error about an object that says something which cannot be turned into pods. Those about its topology constraint
// have the kinds of package constraint.
var ErrInvalid = errors.New("invalid")

// Error says which field is wrong, why, and what to do about it.
type Error struct {
	// Path of the field, e.g. spec.services[Frontend].resources.limits.gpu.
	Path string
	// Message says what is wrong and the fix.
	Message string
	// Kind is what errors.Is finds.
	Kind error
}

// Error implements error.
func (e *Error) Error() string { return e.Path + ": " + e.Message }

// Unwrap makes errors.Is find the kind.
func (e *Error) Unwrap() error { return e.Kind }

func invalid(path, format string, args ...any) *Error {
	return &Error{Path: path, Message: fmt.Sprintf(format, args...), Kind: ErrInvalid}
}
