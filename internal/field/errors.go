// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package field

import (
	"errors"
	"strings"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	k8sfield "k8s.io/apimachinery/pkg/util/validation/field"
)

// ErrorType is the error type of Kubernetes' package field.
type ErrorType = k8sfield.ErrorType

// Types of errors.
const (
	ErrorTypeNotFound     = k8sfield.ErrorTypeNotFound
	ErrorTypeRequired     = k8sfield.ErrorTypeRequired
	ErrorTypeDuplicate    = k8sfield.ErrorTypeDuplicate
	ErrorTypeInvalid      = k8sfield.ErrorTypeInvalid
	ErrorTypeNotSupported = k8sfield.ErrorTypeNotSupported
	ErrorTypeForbidden    = k8sfield.ErrorTypeForbidden
	ErrorTypeTooLong      = k8sfield.ErrorTypeTooLong
	ErrorTypeTooMany      = k8sfield.ErrorTypeTooMany
)

// OmitValueType is the type of a value that an error message omits.
type OmitValueType = k8sfield.OmitValueType

// Error is an error about one field.
type Error struct {
	Type     ErrorType
	Field    *Path
	BadValue any
	Detail   Text
}

// ErrorList lists the errors of an object.
type ErrorList []*Error

// Error implements error, in the terms of v1beta1.
func (e *Error) Error() string { return e.In("") }

// In implements [Worded].
func (e *Error) In(version string) string { return e.as(version).Error() }

func (e *Error) as(version string) *k8sfield.Error {
	return &k8sfield.Error{Type: e.Type, Field: e.Field.In(version), BadValue: e.BadValue, Detail: e.Detail.In(version)}
}

// In returns the errors as Kubernetes errors, in the terms of a version.
func (l ErrorList) In(version string) k8sfield.ErrorList {
	var out k8sfield.ErrorList
	for _, e := range l {
		out = append(out, e.as(version))
	}
	return out
}

// ToAggregate returns the errors as one error, in the terms of v1beta1; nil for none.
func (l ErrorList) ToAggregate() utilerrors.Aggregate { return l.In("").ToAggregate() }

// Invalid returns an error about a value. detail and args are as in [Say].
func Invalid(path *Path, value any, detail string, args ...any) *Error {
	return &Error{Type: ErrorTypeInvalid, Field: path, BadValue: value, Detail: Say(detail, args...)}
}

// Required returns an error about a field that is not set.
func Required(path *Path, detail string, args ...any) *Error {
	return &Error{Type: ErrorTypeRequired, Field: path, BadValue: "", Detail: Say(detail, args...)}
}

// Forbidden returns an error about a field that must not be set or must not be changed.
func Forbidden(path *Path, detail string, args ...any) *Error {
	return &Error{Type: ErrorTypeForbidden, Field: path, BadValue: "", Detail: Say(detail, args...)}
}

// NotSupported returns an error about a value outside a fixed set.
func NotSupported[T ~string](path *Path, value any, supported []T) *Error {
	err := k8sfield.NotSupported(nil, value, supported)
	return &Error{Type: err.Type, Field: path, BadValue: err.BadValue, Detail: Say(err.Detail)}
}

// TooMany returns an error about a list with too many items. most is the maximum.
func TooMany(path *Path, items, most int) *Error {
	err := k8sfield.TooMany(nil, items, most)
	return &Error{Type: err.Type, Field: path, BadValue: err.BadValue, Detail: Say(err.Detail)}
}

// Errorf returns an error whose message depends on the API version, as in [Say].
func Errorf(format string, args ...any) error { return failure{Say(format, args...)} }

type failure struct{ Text }

// Error implements error.
func (f failure) Error() string { return f.String() }

// ErrorIn returns the message of an error. If the error is [Worded], the message is in the terms of the version. If the error joins several
// errors, the message has one line for each error.
func ErrorIn(err error, version string) string {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var lines []string
		for _, err := range joined.Unwrap() {
			lines = append(lines, ErrorIn(err, version))
		}
		return strings.Join(lines, "\n")
	}
	if worded := Worded(nil); errors.As(err, &worded) {
		return worded.In(version)
	}
	return err.Error()
}

// Body is an error whose message omits the path.
type Body struct{ *Error }

// In implements [Worded].
func (b Body) In(version string) string { return b.as(version).ErrorBody() }
