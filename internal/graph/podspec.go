// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package graph

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// podFSGroup owns the volumes' files unless the user says anything about the pod's security: Dynamo's images run as this group.
const podFSGroup = 1000

// podSpec is the user's extraPodSpec with the main container first and the gaps filled.
func (t *templater) podSpec() corev1.PodSpec {
	spec := corev1.PodSpec{}
	if extra := t.spec.ExtraPodSpec; extra != nil && extra.PodSpec != nil {
		extra.PodSpec.DeepCopyInto(&spec)
	}
	main := t.mainContainer()
	t.addClaims(&spec, &main)
	t.addSharedMemory(&spec, &main)
	t.addPickerFiles(&spec, &main)

	containers := []corev1.Container{main}
	if t.spec.FrontendSidecar != nil {
		containers = append(containers, t.frontendSidecar())
	}
	spec.Containers = append(containers, spec.Containers...)
	t.checkContainerNames(&spec)
	t.fillPodSpec(&spec)
	return spec
}

func (t *templater) fillPodSpec(spec *corev1.PodSpec) {
	if spec.RestartPolicy == "" {
		spec.RestartPolicy = corev1.RestartPolicyAlways
	}
	if spec.TerminationGracePeriodSeconds == nil {
		spec.TerminationGracePeriodSeconds = ptr.To(t.defaults.graceSeconds)
	}
	if spec.SecurityContext == nil {
		spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: ptr.To[int64](podFSGroup)}
	}
	if spec.PriorityClassName == "" {
		spec.PriorityClassName = t.dgd.Spec.PriorityClassName
	}
}

func (t *templater) checkContainerNames(spec *corev1.PodSpec) {
	seen := map[string]bool{}
	for _, list := range [][]corev1.Container{spec.Containers, spec.InitContainers} {
		for i := range list {
			name := list[i].Name
			if seen[name] {
				t.invalid(t.path+".extraPodSpec.containers", "two containers are named %q; the service's own container is mainContainer, named %q unless it says otherwise", name, mainContainerName)
			}
			seen[name] = true
		}
	}
}
