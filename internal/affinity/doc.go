// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package affinity applies the rules about other pods that the kube-scheduler enforces: required pod affinity and anti-affinity, the
// anti-affinity of running pods, and topology spread with DoNotSchedule. It is a [topology.Binder]. The semantics are those of the plugins
// InterPodAffinity and PodTopologySpread of Kubernetes 1.37; hack/filters compares the two.
//
// # Idea
//
// [Binder.Bind] reads, once per plan, the rules of the plan's pods and of the running pods that match them, and counts the pods of the
// cluster for each rule by the value of its topology key. The counts are updated as the search puts pods on nodes and removes them. A check
// of a node is then a few lookups.
//
// The shape's rule covers everything that no further pod can change, so that domain counts include it: a value whose pods repel the pod, a
// label that the node lacks. Rules that depend on the other pods of the plan are checked pod by pod.
//
// # Spread
//
// Trellis pins pods by node labels and by host. With nodeAffinityPolicy Honor, the default, the kube-scheduler counts only nodes that match
// these pins, so the constraint as written would never bind. Therefore it is counted here over the domain that must hold the pod
// ([Binding.Excludes]' scope), as the kube-scheduler would count if pods were pinned to that domain alone. The pinned pod must also pass
// the kube-scheduler: with minDomains above 1, its single host is too few domains, so the pods on that host alone must not exceed maxSkew.
package affinity
