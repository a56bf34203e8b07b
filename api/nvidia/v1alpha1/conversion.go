// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"encoding/json"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/conversion"

	"github.com/trellis-k8s/trellis/api/nvidia/internal/convert"
	"github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
)

// The annotations of a converted object that preserve fields of the other version.
const (
	AnnotationSpecMemory   = convert.AnnotationSpec
	AnnotationStatusMemory = convert.AnnotationStatus
)

// MaxAnnotations is the maximum size in bytes of all annotations of an object, as the API server enforces it.
const MaxAnnotations = convert.MaxAnnotations

// ConvertJSON converts a DynamoGraphDeployment or an adapter, as raw JSON from the API server, to a version: v1alpha1 or v1beta1. The
// conversion webhook uses it because the Go types would canonicalise quantities and drop empty values. It fails only if raw is no JSON
// object or has another version.
func ConvertJSON(raw []byte, version string) ([]byte, error) { return convert.JSON(raw, version) }

// ConversionFits returns an error, with path and fix, if the other version cannot preserve all fields of an object: the annotations that
// preserve these fields, together with all other annotations, must fit into MaxAnnotations. An object that does not fit still converts,
// without the preserved fields.
func ConversionFits(raw []byte) error { return convert.Fits(raw) }

// PayloadProblem returns the reason why the preserved-fields annotations of a v1beta1 object cannot be used and are ignored; "" if they can
// be used.
func PayloadProblem(dgd *v1beta1.DynamoGraphDeployment) string {
	return MemoryProblem(dgd.Annotations, convert.Beta)
}

// MemoryProblem returns the reason why the preserved-fields annotations of an object of the given version cannot be used and are ignored;
// "" if they can be used.
func MemoryProblem(annotations map[string]string, version string) string {
	return convert.Problem(annotations, version)
}

// OtherVersion returns v1beta1 for v1alpha1, and v1alpha1 for v1beta1.
func OtherVersion(version string) string { return convert.Other(version) }

// MemoryDropped reports whether the annotations of an object of the given version had no space for the spec fields of the other version. A
// write in the given version would lose these fields.
func MemoryDropped(annotations map[string]string, version string) bool {
	return convert.Dropped(annotations, version)
}

// ConvertTo converts a deployment to v1beta1.
func (src *DynamoGraphDeployment) ConvertTo(dst conversion.Hub) error {
	return retype(src, dst, true)
}

// ConvertFrom converts a deployment from v1beta1.
func (dst *DynamoGraphDeployment) ConvertFrom(src conversion.Hub) error {
	hub, ok := src.(*v1beta1.DynamoGraphDeployment)
	if !ok {
		return fmt.Errorf("no conversion from %T", src)
	}
	return retype(hub, dst, true)
}

// ConvertTo converts an adapter to v1beta1.
func (src *DynamoGraphDeploymentScalingAdapter) ConvertTo(dst conversion.Hub) error {
	return retype(src, dst, true)
}

// ConvertFrom converts an adapter from v1beta1.
func (dst *DynamoGraphDeploymentScalingAdapter) ConvertFrom(src conversion.Hub) error {
	hub, ok := src.(*v1beta1.DynamoGraphDeploymentScalingAdapter)
	if !ok {
		return fmt.Errorf("no conversion from %T", src)
	}
	return retype(hub, dst, true)
}

// retype converts one typed object into another through JSON. Kind and version follow from the Go type, because objects that a client has
// read may lack their kind.
func retype(src, dst any, remembers bool) error {
	var kind, version string
	switch out := dst.(type) {
	case *DynamoGraphDeployment:
		kind, version = convert.KindDeployment, convert.Alpha
		*out = DynamoGraphDeployment{}
	case *v1beta1.DynamoGraphDeployment:
		kind, version = convert.KindDeployment, convert.Beta
		*out = v1beta1.DynamoGraphDeployment{}
	case *DynamoGraphDeploymentScalingAdapter:
		kind, version = convert.KindAdapter, convert.Alpha
		*out = DynamoGraphDeploymentScalingAdapter{}
	case *v1beta1.DynamoGraphDeploymentScalingAdapter:
		kind, version = convert.KindAdapter, convert.Beta
		*out = v1beta1.DynamoGraphDeploymentScalingAdapter{}
	default:
		return fmt.Errorf("no conversion to %T", dst)
	}
	raw, err := json.Marshal(src)
	if err != nil {
		return fmt.Errorf("writing the %s: %w", kind, err)
	}
	converted, err := convert.Typed(raw, kind, version, remembers)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(converted, dst); err != nil {
		return fmt.Errorf("reading the converted %s: %w", kind, err)
	}
	return nil
}
