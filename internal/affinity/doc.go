// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package affinity applies the rules about other pods that the kube-scheduler enforces: required pod affinity and anti-affinity, the
// anti-affinity of running pods, and topology spread with DoNotSchedule. It implements a [topology.Binder]. It follows the plugins
// InterPodAffinity and PodTopologySpread of Kubernetes 1.37; hack/filters compares this package with the plugins.
//
// # Idea
//
// [Binder.Bind] reads, once per plan, the rules of the plan's pods and the rules of running pods that match the plan's pods. For each rule,
// it counts the pods of the cluster by the value of the rule's topology key. The counts are updated as the search puts pods on nodes and
// removes them. A check of a node is then a few lookups.
//
// The shape's rule covers everything that no further pod of the plan can change, for example a rack with a running pod that repels the
// plan's pods, or a label that the node lacks. The counts per domain therefore take the shape's rule into account. Rules that depend on the
// other pods of the plan are checked pod by pod.
//
// # Spread
//
// Trellis pins pods by node labels and by host. With nodeAffinityPolicy Honor, the default, the kube-scheduler counts only nodes that match
// these pins, so the constraint would never have an effect. This package therefore counts over the domain that must hold the pod
// ([Binding.Excludes]' scope), as the kube-scheduler would count if pods were pinned to that domain alone. The kube-scheduler must accept
// the pinned pod too. If minDomains is above 1, the single counted host is less than minDomains domains, so the number of pods on that host
// alone must not exceed maxSkew.
package affinity
