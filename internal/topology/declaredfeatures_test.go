// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/nodedeclaredfeatures/features"
	"k8s.io/utils/ptr"
)

const (
	restartAll  = "RestartAllContainersOnContainerExits"
	hostUsers   = "UserNamespacesHostNetworkSupport"
	mountOption = "VolumeBindMountOptions"
)

func restartsAll(p *corev1.Pod) {
	p.Spec.Containers[0].RestartPolicyRules = []corev1.ContainerRestartRule{{Action: corev1.ContainerRestartRuleActionRestartAllContainers}}
}

func usesHostNetwork(p *corev1.Pod) { p.Spec.HostNetwork, p.Spec.HostUsers = true, ptr.To(false) }

func declares(names ...string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Status.DeclaredFeatures = names }
}

// A pod that uses a feature of the kubelet goes to nodes that declare the feature.
func TestDeclaredFeatures(t *testing.T) {
	for name, tc := range map[string]struct {
		pod  []func(*corev1.Pod)
		node func(*corev1.Node)
		want string
	}{
		"no feature is used":            {node: declares()},
		"a restart rule":                {pod: []func(*corev1.Pod){restartsAll}, node: declares(), want: "lacking feature " + restartAll},
		"a restart rule, declared":      {pod: []func(*corev1.Pod){restartsAll}, node: declares("A", restartAll, "Z")},
		"another feature is declared":   {pod: []func(*corev1.Pod){restartsAll}, node: declares(hostUsers), want: "lacking feature " + restartAll},
		"two features, one of them":     {pod: []func(*corev1.Pod){restartsAll, usesHostNetwork}, node: declares(restartAll), want: "lacking feature " + hostUsers},
		"two features, neither of them": {pod: []func(*corev1.Pod){restartsAll, usesHostNetwork}, node: declares(), want: "lacking features " + restartAll + ", " + hostUsers},
		"a feature that is not known":   {pod: []func(*corev1.Pod){restartsAll}, node: declares("New"), want: "lacking feature " + restartAll},
		"an init container's rule": {pod: []func(*corev1.Pod){func(p *corev1.Pod) {
			restartsAll(p)
			p.Spec.InitContainers, p.Spec.Containers[0].RestartPolicyRules = []corev1.Container{p.Spec.Containers[0]}, nil
		}}, node: declares(), want: "lacking feature " + restartAll},
		"a mount option": {pod: []func(*corev1.Pod){func(p *corev1.Pod) {
			p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "x", BindMountOptions: []string{"noexec"}}}
		}}, node: declares(restartAll), want: "lacking feature " + mountOption},
	} {
		t.Run(name, func(t *testing.T) {
			c := NewCluster()
			c.SetNode(makeNode("n", nil, amounts{gpu: "8"}, tc.node))
			why, _ := c.Why("n", ShapeOf(makePod("p", "", amounts{gpu: "1"}, tc.pod...)))
			if got := why.String(); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}

// Pods that use different features are not interchangeable.
func TestFeaturesInKey(t *testing.T) {
	plain, rule := ShapeOf(makePod("p", "", nil)), ShapeOf(makePod("q", "", nil, restartsAll))
	if plain.Key() == rule.Key() {
		t.Error("one key for a pod with a restart rule and one without")
	}
}

// Counts follow the features that a node declares, and the release of the cluster.
func TestDeclaredFeaturesChange(t *testing.T) {
	c := NewCluster()
	tree := c.Tree(nil, nil)
	view := func() int { return tree.View(ShapeOf(makePod("p", "", amounts{gpu: "1"}, restartsAll))).Fit(Root) }
	got := []int{}
	for _, change := range []func(){
		func() { c.SetNode(makeNode("n", nil, amounts{gpu: "8"})) },
		func() { c.SetNode(makeNode("n", nil, amounts{gpu: "8"}, declares(restartAll))) },
		func() { c.SetNode(makeNode("n", nil, amounts{gpu: "8"})) },
		func() { c.IgnoreDeclaredFeatures(true) },
		func() { c.IgnoreDeclaredFeatures(false) },
	} {
		change()
		got = append(got, view())
	}
	if want := []int{0, 8, 0, 8, 0}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if c.IgnoreDeclaredFeatures(false) {
		t.Error("a release that stays the same is a change")
	}
}

// No feature of the library ends with a release: what a pod needs does not depend on the version of the cluster, as featuresOf assumes.
func TestFeaturesHaveNoLastRelease(t *testing.T) {
	for _, f := range features.AllFeatures {
		if f.MaxVersion() != nil {
			t.Errorf("%s ends with %s", f.Name(), f.MaxVersion())
		}
	}
}
