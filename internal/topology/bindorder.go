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

// Order predicts how the kube-scheduler decides about waiting pods, which it may try in any order. Pods are identified by their index. The
// caller puts the pods on their nodes one by one, and each answer applies to the current state of the cluster.
type Order interface {
	// Ties returns the common ties of a pod with other pods: the order of two pods may matter only if they have a common tie. Pods without
	// a common tie do not affect each other. Binding pods may remove ties but never adds any.
	Ties(i int) []string
	// Refuses reports whether a pod is currently kept off the node to which it is pinned.
	Refuses(i int) bool
	// Free reports whether a pod that is not refused now can never be refused later, and can be bound without causing a refusal of another
	// pod.
	Free(i int) bool
	// Alike is equal for interchangeable pods of one shape; "" for a pod that is not interchangeable.
	Alike(i int) string
	// Orderly reports whether the given pods can be bound in every order. The pods are tied to each other and have no ties by other rules.
	// known is false when the pods' places do not determine the answer.
	Orderly(some []int) (every, known bool)
	// State is equal for states in which the same pods are bound with the same effect. The effect may depend on the order of binding.
	State() uint64
}
