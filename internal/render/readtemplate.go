// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
)

// RuntimeNamespace returns the Dynamo namespace of a scaling group's main containers, including the suffix that workers append for their
// generation.
func RuntimeNamespace(sg *trellisv1alpha1.ScalingGroup) string {
	if len(sg.Spec.Roles) == 0 {
		return ""
	}
	pod := &sg.Spec.Roles[0].Template.Spec
	namespace, suffix := mainEnv(pod, envDynamoNamespace), mainEnv(pod, envWorkerSuffix)
	if namespace == "" || suffix == "" {
		return namespace
	}
	return namespace + "-" + suffix
}

// mainEnv returns the value of a variable in the main container; "" for none.
func mainEnv(pod *corev1.PodSpec, name string) string {
	at := slices.IndexFunc(pod.Containers, func(c corev1.Container) bool { return c.Name == mainContainerName })
	if at < 0 {
		return ""
	}
	return envValue(pod.Containers[at].Env, name)
}

func envValue(env []corev1.EnvVar, name string) string {
	if at := indexEnv(env, name); at >= 0 {
		return env[at].Value
	}
	return ""
}

const envDynamoNamespace = "DYN_NAMESPACE"
