// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/component-helpers/nodedeclaredfeatures"
)

// Node declared features are handled as in the kube-scheduler's NodeDeclaredFeatures plugin: a pod that uses a kubelet feature, such as the
// restart rule RestartAllContainers, needs a node that declares the feature (node.status.declaredFeatures). Before Kubernetes 1.36, nodes
// declare no features and the kube-scheduler requires none.

// featureSet is a set of features that nodes may declare.
type featureSet = nodedeclaredfeatures.FeatureSet

var knownFeatures = nodedeclaredfeatures.DefaultFramework

// asOf is the Kubernetes release for which features are inferred from pods. No known feature has a maximum release.
var asOf = version.MajorMinor(1, 36)

// featuresOf returns the features that a pod uses.
func featuresOf(pod *corev1.Pod) featureSet {
	used, err := knownFeatures.InferForPodScheduling(&nodedeclaredfeatures.PodInfo{Spec: &pod.Spec}, asOf)
	if err != nil || used.IsEmpty() { // the only error is a missing release
		return noFeatures
	}
	return used
}

// noFeatures is shared by all pods and nodes without features.
var noFeatures = knownFeatures.NewFeatureSet()

// declaredBy returns the known features that a node declares.
func declaredBy(n *corev1.Node) featureSet {
	if len(n.Status.DeclaredFeatures) == 0 {
		return noFeatures
	}
	return knownFeatures.TryMap(n.Status.DeclaredFeatures)
}

// IgnoreDeclaredFeatures sets whether the kube-scheduler's release ignores declared features, and reports whether the setting changed. A
// change makes every view recount all nodes.
func (c *Cluster) IgnoreDeclaredFeatures(ignore bool) (changed bool) {
	if ignore == c.ignoresFeatures {
		return false
	}
	c.ignoresFeatures = ignore
	for _, n := range c.nodes {
		if n != nil {
			c.tick++
			n.version = c.tick
		}
	}
	c.log.forget()
	c.specs++
	return true
}

// lacksFeatures returns the features that pods use and a node does not declare.
func (c *Cluster) lacksFeatures(n *node, s *Shape) (Exclusion, bool) {
	if c.ignoresFeatures || s.features.IsEmpty() {
		return Exclusion{}, false
	}
	c.work++
	match, err := knownFeatures.MatchNodeFeatureSet(s.features, n.spec.features)
	if err != nil || match.IsMatch { // the only error is a node without an object, which another check excludes
		return Exclusion{}, false
	}
	return Exclusion{Kind: KindFeature, Detail: strings.Join(match.UnsatisfiedRequirements, ", ")}, true
}

// featureText returns the part of a shape's key for a set of features; "" for an empty set.
func featureText(f featureSet) string {
	if f.IsEmpty() {
		return ""
	}
	return "|f:" + f.String()
}
