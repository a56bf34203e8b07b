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

// The annotations of a converted object that keep what its own version cannot say.
const (
	AnnotationSpecMemory   = convert.AnnotationSpec
	AnnotationStatusMemory = convert.AnnotationStatus
)

// MaxAnnotations is the size in bytes of all annotations of an object that the API server takes.
const MaxAnnotations = convert.MaxAnnotations

// ConvertJSON converts a DynamoGraphDeployment or an adapter, as the API server holds it, to a version: v1alpha1 or v1beta1. It is what a
// conversion webhook calls: the Go types canonicalise quantities and drop empty values, raw JSON keeps them. It fails only for what is no
// JSON object or for another version.
func ConvertJSON(raw []byte, version string) ([]byte, error) { return convert.JSON(raw, version) }

// ConversionFits says, with path and fix, why an object of either version cannot be kept in the other without loss: what the other cannot
// say is kept in annotations, which must fit into MaxAnnotations together with all others. Such an object still converts, without its
// memory.
func ConversionFits(raw []byte) error { return convert.Fits(raw) }

// PayloadProblem describes what is wrong with the annotations of a v1beta1 object that should keep what only v1alpha1 can say: they are
// ignored. It is empty if nothing is wrong.
func PayloadProblem(dgd *v1beta1.DynamoGraphDeployment) string {
	return MemoryProblem(dgd.Annotations, convert.Beta)
}

// MemoryProblem describes what is wrong with the annotations of an object of a version that should keep what only the other version can
// say: they are ignored. It is empty if nothing is wrong.
func MemoryProblem(annotations map[string]string, version string) string {
	return convert.Problem(annotations, version)
}

// OtherVersion of the two that are converted into each other.
func OtherVersion(version string) string { return convert.Other(version) }

// MemoryDropped reports whether the annotations of an object of a version had no room for what only the other version can say of its spec.
// Written in this version, the object would lose that.
func MemoryDropped(annotations map[string]string, version string) bool {
	return convert.Dropped(annotations, version)
}

// ConvertTo makes a deployment of v1beta1.
func (src *DynamoGraphDeployment) ConvertTo(dst conversion.Hub) error {
	return retype(src, dst, true)
}

// ConvertFrom makes a deployment of one of v1beta1.
func (dst *DynamoGraphDeployment) ConvertFrom(src conversion.Hub) error {
	hub, ok := src.(*v1beta1.DynamoGraphDeployment)
	if !ok {
		return fmt.Errorf("no conversion from %T", src)
	}
	return retype(hub, dst, true)
}

// ConvertTo makes an adapter of v1beta1.
func (src *DynamoGraphDeploymentScalingAdapter) ConvertTo(dst conversion.Hub) error {
	return retype(src, dst, true)
}

// ConvertFrom makes an adapter of one of v1beta1.
func (dst *DynamoGraphDeploymentScalingAdapter) ConvertFrom(src conversion.Hub) error {
	hub, ok := src.(*v1beta1.DynamoGraphDeploymentScalingAdapter)
	if !ok {
		return fmt.Errorf("no conversion from %T", src)
	}
	return retype(hub, dst, true)
}

// retype converts one typed object into another through JSON. Objects that a client has read may lack their kind; the types say it.
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
