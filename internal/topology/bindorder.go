// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

// Waiting counts pods of one shape that are pinned to one node and not bound yet. Scope is the domain that must hold these pods.
type Waiting struct {
	Shape *Shape
	Node  NodeID
	Scope DomainID
	Pods  int
}

// Order predicts how the kube-scheduler decides about waiting pods, which it may try in any order. A pod is identified by its index in the
// list that [Binding].Order received. The caller puts the pods on their nodes one by one, and each answer applies to the current state of
// the cluster.
type Order interface {
	// Ties returns the ties of a pod to other pods. The order of two pods may matter only if they have a common tie. Pods without a common
	// tie do not affect each other. Binding pods may remove ties but never adds any.
	Ties(i int) []string
	// Refuses reports whether a pod is currently kept off the node to which it is pinned.
	Refuses(i int) bool
	// Free reports whether a pod that is not refused now can be bound at any time: it will not be refused later, and binding it causes no
	// refusal of another pod.
	Free(i int) bool
	// Alike is equal for interchangeable pods of one shape; "" for a pod that is not interchangeable.
	Alike(i int) string
	// Orderly reports whether the given pods can be bound in every order. These pods are tied to each other, and only by this binding.
	// known is false when the pods' places do not determine the answer.
	Orderly(some []int) (every, known bool)
	// State is equal for states in which the same pods are bound with the same effect. The effect may depend on the order of binding.
	State() uint64
}
