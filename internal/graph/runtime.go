// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
)

// RuntimeNamespace is the Dynamo namespace that the main containers of a group get, whoever set it.
func RuntimeNamespace(sg *trellisv1alpha1.ScalingGroup) string {
	if len(sg.Spec.Roles) == 0 {
		return ""
	}
	for _, c := range sg.Spec.Roles[0].Template.Spec.Containers {
		if c.Name != mainContainerName {
			continue
		}
		if at := slices.IndexFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == envDynamoNamespace }); at >= 0 {
			return c.Env[at].Value
		}
	}
	return ""
}

const envDynamoNamespace = "DYN_NAMESPACE"
