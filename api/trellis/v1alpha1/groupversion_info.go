// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 holds the trellis.dev/v1alpha1 API.
//
// +kubebuilder:object:generate=true
// +groupName=trellis.dev
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of every kind in this package.
var GroupVersion = schema.GroupVersion{Group: "trellis.dev", Version: "v1alpha1"}

// AddToScheme registers the kinds of this package.
var AddToScheme = (&runtime.SchemeBuilder{addKnownTypes}).AddToScheme

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &ScalingGroup{}, &ScalingGroupList{}, &GraphPlacement{}, &GraphPlacementList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
