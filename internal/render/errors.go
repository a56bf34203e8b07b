// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"errors"

	"github.com/trellis-k8s/trellis/internal/field"
)

// ErrInvalid is the kind of error about an object that says something which cannot be turned into pods. Those about its topology constraint
// have the kinds of package constraint.
var ErrInvalid = errors.New("invalid")

// Error reports which field is wrong, why, and what to do about it.
type Error struct {
	// Path of the field.
	Path *field.Path
	// Message describes what is wrong and the fix.
	Message field.Text
	// Kind is what errors.Is finds.
	Kind error
}

// Error implements error, in the words of v1beta1.
func (e *Error) Error() string { return e.In("") }

// In implements [field.Worded].
func (e *Error) In(version string) string { return e.Path.In(version) + ": " + e.Message.In(version) }

// Unwrap makes errors.Is find the kind.
func (e *Error) Unwrap() error { return e.Kind }

func invalid(path *field.Path, format string, args ...any) *Error {
	return &Error{Path: path, Message: field.Say(format, args...), Kind: ErrInvalid}
}
