// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"errors"

	"github.com/trellis-k8s/trellis/internal/field"
)

// ErrInvalid is the [Error.Kind] for fields that cannot be rendered as pods. Errors about the topology constraint have a kind from package
// constraint instead.
var ErrInvalid = errors.New("invalid")

// Error describes an invalid field: its path, the problem, and the fix.
type Error struct {
	Path *field.Path
	// Message describes the problem and its fix.
	Message field.Text
	// Kind is the sentinel error for errors.Is.
	Kind error
}

// Error implements error. It names fields as in v1beta1.
func (e *Error) Error() string { return e.In("") }

// In implements [field.Worded].
func (e *Error) In(version string) string { return e.Path.In(version) + ": " + e.Message.In(version) }

// Unwrap returns the kind of the error, for errors.Is.
func (e *Error) Unwrap() error { return e.Kind }

func invalid(path *field.Path, format string, args ...any) *Error {
	return &Error{Path: path, Message: field.Say(format, args...), Kind: ErrInvalid}
}
