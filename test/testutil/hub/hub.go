// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package hub converts deployments that tests write in v1alpha1 to v1beta1, the version of the operator's code.
package hub

import (
	corev1 "k8s.io/api/core/v1"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
)

// Of converts a deployment from v1alpha1; nil stays nil. It panics if the deployment cannot be marshaled.
func Of(dgd *nvidiav1alpha1.DynamoGraphDeployment) *nvidiav1beta1.DynamoGraphDeployment {
	if dgd == nil {
		return nil
	}
	out := &nvidiav1beta1.DynamoGraphDeployment{}
	if err := dgd.ConvertTo(out); err != nil {
		panic(err)
	}
	return out
}

// Back converts a deployment to v1alpha1. It panics if the deployment cannot be marshaled.
func Back(dgd *nvidiav1beta1.DynamoGraphDeployment) *nvidiav1alpha1.DynamoGraphDeployment {
	out := &nvidiav1alpha1.DynamoGraphDeployment{}
	if err := out.ConvertFrom(dgd); err != nil {
		panic(err)
	}
	return out
}

// Adapter converts an adapter from v1alpha1. It panics if the adapter cannot be marshaled.
func Adapter(a *nvidiav1alpha1.DynamoGraphDeploymentScalingAdapter) *nvidiav1beta1.DynamoGraphDeploymentScalingAdapter {
	out := &nvidiav1beta1.DynamoGraphDeploymentScalingAdapter{}
	if err := a.ConvertTo(out); err != nil {
		panic(err)
	}
	return out
}

// Main returns a podTemplate with one container, the main one.
func Main(c *corev1.Container) *corev1.PodTemplateSpec {
	main := *c
	main.Name = nvidiav1beta1.MainContainerName
	return &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{main}}}
}
