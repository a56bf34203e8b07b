// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/trellis-k8s/trellis/internal/field"
)

// podFSGroup is the group that owns the files of volumes if the user sets no security context. Dynamo's images run as this group.
const podFSGroup = 1000

// podSpec returns the spec of the podTemplate with the main container first and defaults added.
func (t *templater) podSpec() corev1.PodSpec {
	spec := corev1.PodSpec{}
	if template := t.spec.PodTemplate; template != nil {
		template.Spec.DeepCopyInto(&spec)
	}
	main := corev1.Container{}
	if i := indexContainer(spec.Containers, mainContainerName); i >= 0 {
		main = spec.Containers[i]
		spec.Containers = slices.Delete(spec.Containers, i, i+1)
	}
	t.fillMain(&main)
	t.addCompilationCache(&spec, &main)
	t.addSharedMemory(&spec, &main)
	t.addPickerFiles(&spec, &main)
	t.addTransferFile(&spec, &main)
	t.addComputeDomain(&spec, &main)
	if i := indexContainer(spec.Containers, t.spec.FrontendSidecar); i >= 0 && t.spec.FrontendSidecar != "" {
		t.fillSidecar(&spec.Containers[i])
	}
	spec.Containers = append([]corev1.Container{main}, spec.Containers...)
	t.checkContainerNames(&spec)
	t.fillPodSpec(&spec)
	return spec
}

func indexContainer(containers []corev1.Container, name string) int {
	return slices.IndexFunc(containers, func(c corev1.Container) bool { return c.Name == name })
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

const twoContainers = "two containers are named %q; %s"

// ownContainer explains the name of the main container in error messages.
var ownContainer = field.Either(`the component's own container is named "main"`,
	`the service's own container is mainContainer, named "main" unless it says otherwise`)

func (t *templater) checkContainerNames(spec *corev1.PodSpec) {
	seen := map[string]bool{}
	for _, list := range [][]corev1.Container{spec.Containers, spec.InitContainers} {
		for i := range list {
			name := list[i].Name
			if seen[name] {
				t.invalid(t.path.Child("podTemplate", "spec", "containers"), twoContainers, name, ownContainer)
			}
			seen[name] = true
		}
	}
}
