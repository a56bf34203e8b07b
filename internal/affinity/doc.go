// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package affinity counts the rules about other pods that the kube-scheduler enforces: required pod affinity and anti-affinity, the
// anti-affinity of pods that run already, and topology spread with DoNotSchedule. It is a [topology.Binder]. The semantics are those of
// the plugins InterPodAffinity and PodTopologySpread of Kubernetes 1.37; hack/filters compares the two.
//
// # Idea
//
// A plan asks once ([Binder.Bind]). The rules of its pods, and of the running pods that these match, are read, and the pods of the cluster
// are counted for each of them by the value of its topology key. Then the search puts pods on nodes and takes them off, and the counts
// follow. A question about a node is a few lookups.
//
// What no further pod can change is said by the shape's rule, so that it counts in domains: a value whose pods repel this one, a label
// that the node lacks. What depends on the other pods of the plan is asked pod by pod.
//
// # Spread
//
// Trellis pins pods by node labels and by host. With nodeAffinityPolicy Honor, the default, the kube-scheduler counts only nodes that match
// these pins: the constraint, as it was written, would never bind. So it is counted here over the domain that has to hold the pod
// ([Binding.Excludes]' scope), as the kube-scheduler would if pods were pinned to that domain alone. The pinned pod must pass the
// kube-scheduler, too: with minDomains above 1 the one host is fewer domains than that, and the pods on it alone must not exceed maxSkew.
package affinity
