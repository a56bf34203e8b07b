// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package smallworld

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"
)

// declared are sets of features that nodes declare; neither the planner nor the filters know "Unknown".
var declared = [][]string{
	nil,
	{"RestartAllContainersOnContainerExits"},
	{"RestartAllContainersOnContainerExits", "Unknown", "UserNamespacesHostNetworkSupport"},
	{"UserNamespacesHostNetworkSupport", "VolumeBindMountOptions"},
	{"RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport", "VolumeBindMountOptions"},
}

// DrawFeatures draws a world whose pods use features of the kubelet that only some nodes declare.
func DrawFeatures(t *rapid.T) World {
	w := drawWorld(t)
	for i := range rapid.IntRange(1, 4).Draw(t, "nodes") {
		n := drawNode(t, i)
		closeOrDeclare(t, n)
		w.Nodes = append(w.Nodes, n)
	}
	for i := range rapid.IntRange(1, 3).Draw(t, "pods") {
		p := plainPod(fmt.Sprintf("pod-%d", i), rapid.IntRange(0, 2).Draw(t, fmt.Sprint("gpus ", i)))
		useFeatures(t, p)
		w.Gang = append(w.Gang, p)
	}
	return w
}

// closeOrDeclare cordons some nodes, and lets some declare features.
func closeOrDeclare(t *rapid.T, n *corev1.Node) {
	n.Spec.Unschedulable = rapid.IntRange(0, 7).Draw(t, n.Name+" cordoned") == 0
	n.Status.DeclaredFeatures = rapid.SampledFrom(declared).Draw(t, n.Name+" declares")
}

// restartAll adds a rule that restarts all containers of the pod when this container exits.
func restartAll(c *corev1.Container) {
	c.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyNever)
	c.RestartPolicyRules = []corev1.ContainerRestartRule{{
		Action:    corev1.ContainerRestartRuleActionRestartAllContainers,
		ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{Operator: corev1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{42}},
	}}
}

// useFeatures makes a pod use some of the features.
func useFeatures(t *rapid.T, p *corev1.Pod) {
	c := &p.Spec.Containers[0]
	if rapid.Bool().Draw(t, p.Name+" restarts all") {
		restartAll(c)
	}
	if rapid.IntRange(0, 3).Draw(t, p.Name+" is on the host's network") == 0 {
		p.Spec.HostNetwork, p.Spec.HostUsers = true, ptr.To(rapid.Bool().Draw(t, p.Name+" has the host's users"))
	}
	if rapid.IntRange(0, 3).Draw(t, p.Name+" mounts with options") == 0 {
		c.VolumeMounts = []corev1.VolumeMount{{Name: "x", BindMountOptions: []string{"noexec"}}}
	}
}
