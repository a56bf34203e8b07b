// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package graphs has components and checks of pods for scenarios on any kind of cluster.
package graphs

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
)

// Components of a deployment, by name.
type Components = map[string]*nvidiav1alpha1.ServiceSpec

// Worker returns a component with the given replicas, nodes per replica and GPUs per node, packed in packDomain if set.
func Worker(replicas, nodes int32, gpus int, packDomain string) *nvidiav1alpha1.ServiceSpec {
	s := &nvidiav1alpha1.ServiceSpec{
		ComponentType: nvidiav1alpha1.ComponentTypeWorker, Replicas: &replicas,
		Resources: &nvidiav1alpha1.Resources{Limits: &nvidiav1alpha1.ResourceItem{GPU: fmt.Sprint(gpus)}},
		ExtraPodSpec: &nvidiav1alpha1.ExtraPodSpec{MainContainer: &corev1.Container{
			Image: "example.com/vllm:1", Command: []string{"/bin/sh", "-c"}, Args: []string{"python3 -m dynamo.vllm --model m"},
		}},
	}
	if nodes > 1 {
		s.Multinode = &nvidiav1alpha1.MultinodeSpec{NodeCount: nodes}
	}
	if packDomain != "" {
		s.TopologyConstraint = &nvidiav1alpha1.ServiceTopologyConstraint{PackDomain: packDomain}
	}
	return s
}

// Frontend returns a component without GPUs.
func Frontend(replicas int32) *nvidiav1alpha1.ServiceSpec {
	return &nvidiav1alpha1.ServiceSpec{
		ComponentType: nvidiav1alpha1.ComponentTypeFrontend, Replicas: &replicas,
		ExtraPodSpec: &nvidiav1alpha1.ExtraPodSpec{MainContainer: &corev1.Container{Image: "example.com/frontend:1"}},
	}
}

// UIDs returns the UIDs of pods, to distinguish them from their successors.
func UIDs(pods []corev1.Pod) map[types.UID]bool {
	out := map[types.UID]bool{}
	for i := range pods {
		out[pods[i].UID] = true
	}
	return out
}

// AllNew returns an error unless there are want pods, none of them from before.
func AllNew(before map[types.UID]bool, pods []corev1.Pod, want int) error {
	for i := range pods {
		if before[pods[i].UID] {
			return fmt.Errorf("%s is an old one", pods[i].Name)
		}
	}
	if len(pods) != want {
		return fmt.Errorf("%d pods, want %d", len(pods), want)
	}
	return nil
}
