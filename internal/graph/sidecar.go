// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
)

const sidecarName = "sidecar-frontend"

// frontendSidecar is a frontend that runs beside the main container, with a frontend's defaults.
func (t *templater) frontendSidecar() corev1.Container {
	d := frontendDefaults(t.dynamoNamespace())
	sidecar := t.spec.FrontendSidecar
	c := corev1.Container{
		Name:           sidecarName,
		Image:          sidecar.Image,
		Args:           slices.Clone(sidecar.Args),
		Ports:          d.ports,
		LivenessProbe:  d.liveness,
		ReadinessProbe: d.readiness,
		EnvFrom:        appendSecret(nil, sidecar.EnvFromSecret),
	}
	fillCommand(&c, d)
	c.Env = mergeEnv(slices.Concat(t.infraEnv(c.Name, nvidiav1alpha1.ComponentTypeFrontend), d.env), sidecar.Envs)
	return c
}
