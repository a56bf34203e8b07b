// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// fillMain adds the defaults of the component type and the graph's variables to the main container. Values that the user has set take
// precedence.
func (t *templater) fillMain(c *corev1.Container) {
	c.Name = cmp.Or(t.alpha.MainContainerName, mainContainerName)
	fillCommand(c, t.defaults)
	c.Ports = mergePorts(c.Ports, t.defaults.ports)
	c.Env = mergeEnv(slices.Concat(t.infraEnv(c.Name, t.componentType), t.generationEnv(), t.defaults.env, t.transferEnv()), t.dgd.Spec.Env,
		c.Env)
	fillProbes(c, t.defaults)
}

// fillCommand sets the default command, and the default args if the user has set no args. It does not change a container with a command. If
// neither the user nor the defaults provide args, the container keeps the image's entry point, because the default command alone is only a
// shell.
func fillCommand(c *corev1.Container, d defaults) {
	if len(c.Command) > 0 {
		return
	}
	if len(c.Args) == 0 {
		c.Args = slices.Clone(d.args)
	}
	if len(c.Args) > 0 {
		c.Command = slices.Clone(d.command)
	}
}

// fillProbes sets the default probes. A user's probe replaces all fields of the default probe.
func fillProbes(c *corev1.Container, d defaults) {
	c.LivenessProbe = firstProbe(c.Ports, c.LivenessProbe, d.liveness)
	c.ReadinessProbe = firstProbe(c.Ports, c.ReadinessProbe, d.readiness)
	c.StartupProbe = firstProbe(c.Ports, c.StartupProbe, d.startup)
}

// firstProbe returns a copy of the first probe that is not nil. The last probe in the list is the default. The default probe refers to its
// port by name, or by the well-known number if a port of the user has replaced the named port.
func firstProbe(ports []corev1.ContainerPort, probes ...*corev1.Probe) *corev1.Probe {
	for i, p := range probes {
		if p == nil {
			continue
		}
		p = p.DeepCopy()
		if i == len(probes)-1 && p.HTTPGet != nil {
			p.HTTPGet.Port = portRef(ports, p.HTTPGet.Port.StrVal, wellKnownPorts[p.HTTPGet.Port.StrVal])
		}
		return p
	}
	return nil
}

var wellKnownPorts = map[string]int32{portHTTP: httpPort, portSystem: systemPort}

// mergePorts adds the default ports, except default ports with the name or the number of a user's port.
func mergePorts(users, ours []corev1.ContainerPort) []corev1.ContainerPort {
	out := users
	for _, port := range ours {
		clash := slices.ContainsFunc(users, func(p corev1.ContainerPort) bool {
			return p.Name == port.Name || p.ContainerPort == port.ContainerPort
		})
		if !clash {
			out = append(out, port)
		}
	}
	return out
}

// portRef refers to a port by name if the container has a port of that name, otherwise by number.
func portRef(ports []corev1.ContainerPort, name string, number int32) intstr.IntOrString {
	if slices.ContainsFunc(ports, func(p corev1.ContainerPort) bool { return p.Name == name }) {
		return intstr.FromString(name)
	}
	return intstr.FromInt32(number)
}
