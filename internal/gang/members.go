// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	corev1 "k8s.io/api/core/v1"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
)

// Members is a gang, whose pods are released together.
type Members struct {
	// Name is the name of the gang.
	Name  string
	Graph *nvidiav1beta1.DynamoGraphDeployment
	// Groups are the scaling groups of the entire graph.
	Groups []*trellisv1alpha1.ScalingGroup
	// Base: the gang is the base gang of a graph that must be in one domain. It has the first replicas of every component. Any other gang
	// has one replica.
	Base     bool
	Replicas []Member
}

// Member is one replica in a gang, with its pods that are still to be released.
type Member struct {
	Group   *trellisv1alpha1.ScalingGroup
	Ordinal int32
	Pods    []*corev1.Pod
}
