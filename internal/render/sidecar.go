// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// fillSidecar adds a frontend's defaults to a container that runs alongside the main container.
func (t *templater) fillSidecar(c *corev1.Container) {
	d := frontendDefaults(t.dynamoNamespace(), versionOfImage(c.Image))
	fillCommand(c, d)
	c.Ports = mergePorts(c.Ports, d.ports)
	c.Env = mergeEnv(slices.Concat(t.infraEnv(c.Name, typeFrontend), d.env), c.Env)
	fillProbes(c, d)
}
