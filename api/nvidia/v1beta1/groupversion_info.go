// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1beta1 holds the nvidia.com/v1beta1 API: the storage version, and the hub of the conversion. The conversion is in package
// v1alpha1, the older version.
//
// On updates, the schema accepts every value that v1alpha1 accepts, because v1alpha1 objects are stored as v1beta1. Stricter rules
// therefore apply to new components only.
//
// +kubebuilder:object:generate=true
// +groupName=nvidia.com
package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of every kind in this package.
var GroupVersion = schema.GroupVersion{Group: "nvidia.com", Version: "v1beta1"}

// AddToScheme registers the kinds of this package.
var AddToScheme = (&runtime.SchemeBuilder{addKnownTypes}).AddToScheme

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&DynamoGraphDeployment{}, &DynamoGraphDeploymentList{},
		&DynamoGraphDeploymentScalingAdapter{}, &DynamoGraphDeploymentScalingAdapterList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}

// Hub marks the version as the hub of the conversion.
func (*DynamoGraphDeployment) Hub() {}

// Hub marks the version as the hub of the conversion.
func (*DynamoGraphDeploymentScalingAdapter) Hub() {}
