// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 holds the nvidia.com/v1alpha1 API.
//
// +kubebuilder:object:generate=true
// +groupName=nvidia.com
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of every kind in this package.
var GroupVersion = schema.GroupVersion{Group: "nvidia.com", Version: "v1alpha1"}

// AddToScheme registers the kinds of this package.
var AddToScheme = (&runtime.SchemeBuilder{addKnownTypes}).AddToScheme

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&DynamoGraphDeployment{}, &DynamoGraphDeploymentList{},
		&DynamoGraphDeploymentScalingAdapter{}, &DynamoGraphDeploymentScalingAdapterList{},
		&DynamoWorkerMetadata{}, &DynamoWorkerMetadataList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
