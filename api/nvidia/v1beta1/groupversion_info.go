// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1beta1 holds the nvidia.com/v1beta1 API: the version that is stored, and the hub that the other versions are converted to and
// from. The conversion lives alongside the older version, in package v1alpha1.
//
// Its schema accepts on an update whatever v1alpha1 admits, because every object of v1alpha1 is stored as one of v1beta1. What is stricter
// here is therefore asked of new components only.
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

// Hub marks the version that the others are converted to and from.
func (*DynamoGraphDeployment) Hub() {}

// Hub marks the version that the others are converted to and from.
func (*DynamoGraphDeploymentScalingAdapter) Hub() {}
