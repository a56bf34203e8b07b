// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/component-helpers/nodedeclaredfeatures"
)

// Node declared features, as the kube-scheduler's NodeDeclaredFeatures has them: a pod that uses a feature of the kubelet, such as the
// restart rule RestartAllContainers, goes to nodes that declare the feature (node.status.declaredFeatures). Before Kubernetes 1.36, where
// nodes declare none, the kube-scheduler does not ask for any.

// featureSet is a set of features that nodes may declare.
type featureSet = nodedeclaredfeatures.FeatureSet

var knownFeatures = nodedeclaredfeatures.DefaultFramework

// asOf is the release for which features are read from pods. None of them ends with a release.
var asOf = version.MajorMinor(1, 36)

// featuresOf are the features that a pod uses.
func featuresOf(pod *corev1.Pod) featureSet {
	used, err := knownFeatures.InferForPodScheduling(&nodedeclaredfeatures.PodInfo{Spec: &pod.Spec}, asOf)
	if err != nil || used.IsEmpty() { // an error is for a release that is not stated
		return noFeatures
	}
	return used
}

// noFeatures is shared by all pods that use none and all nodes that declare none.
var noFeatures = knownFeatures.NewFeatureSet()

// declaredBy are the features that a node declares, of those that are known.
func declaredBy(n *corev1.Node) featureSet {
	if len(n.Status.DeclaredFeatures) == 0 {
		return noFeatures
	}
	return knownFeatures.TryMap(n.Status.DeclaredFeatures)
}

// IgnoreDeclaredFeatures states whether the kube-scheduler is of a release that asks for no declared features, and reports whether that
// changed anything. It costs every view a look at all nodes.
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

// lacksFeatures finds features that pods use and a node does not declare.
func (c *Cluster) lacksFeatures(n *node, s *Shape) (Exclusion, bool) {
	if c.ignoresFeatures || s.features.IsEmpty() {
		return Exclusion{}, false
	}
	c.work++
	match, err := knownFeatures.MatchNodeFeatureSet(s.features, n.spec.features)
	if err != nil || match.IsMatch { // an error is for a node without an object, which is excluded as one
		return Exclusion{}, false
	}
	return Exclusion{Kind: KindFeature, Detail: strings.Join(match.UnsatisfiedRequirements, ", ")}, true
}

// featureText is the key of a set of features; "" for none.
func featureText(f featureSet) string {
	if f.IsEmpty() {
		return ""
	}
	return "|f:" + f.String()
}
