// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"errors"
	"fmt"
)

// Kinds of error a caller may want to tell apart with errors.Is.
var (
	// ErrTopologyNotFound: a constraint names a ClusterTopology that is not there.
	ErrTopologyNotFound = errors.New("ClusterTopology not found")
	// ErrUnknownDomain: a constraint names a level that the ClusterTopology does not have.
	ErrUnknownDomain = errors.New("packDomain not found in cluster topology")
	// ErrInvalid: the object says something that cannot be turned into pods.
	ErrInvalid = errors.New("invalid")
)

// Error says which field is wrong, why, and what to do about it.
type Error struct {
	// Path of the field, e.g. spec.services[Frontend].resources.limits.gpu.
	Path string
	// Message says what is wrong and the fix.
	Message string
	// Kind is one of the errors above.
	Kind error
	// Domain is the level that is missing, with ErrUnknownDomain.
	Domain string
}

// Error implements error.
func (e *Error) Error() string { return e.Path + ": " + e.Message }

// Unwrap makes errors.Is find the kind.
func (e *Error) Unwrap() error { return e.Kind }

func invalid(path, format string, args ...any) *Error {
	return &Error{Path: path, Message: fmt.Sprintf(format, args...), Kind: ErrInvalid}
}
