// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

// Waiting counts pods of one shape that are pinned to one node and not bound yet. Scope is the domain that must hold them.
type Waiting struct {
	Shape *Shape
	Node  NodeID
	Scope DomainID
	Pods  int
}

// Order predicts the kube-scheduler's decisions about waiting pods in any order of attempts. Pods are identified by their index. The
// answers apply to the current state of the cluster, while the pods are put on their nodes one by one.
type Order interface {
	// Ties returns what a pod has in common with pods whose order relative to it may matter. Pods without a common tie do not affect each
	// other. Binding pods may remove ties but never adds any.
	Ties(i int) []string
	// Refuses reports whether a pod is currently kept off the node that it is pinned to.
	Refuses(i int) bool
	// Free reports whether a pod that is not refused can never be refused later, and binding it causes no new refusal of another pod.
	Free(i int) bool
	// Alike is equal for interchangeable pods of one shape; "" for a pod that is not interchangeable.
	Alike(i int) string
	// Orderly reports whether the given pods, tied to each other and without ties by other rules, can be bound in every order. known is false
	// when the pods' places do not determine the answer.
	Orderly(some []int) (every, known bool)
	// State is equal when the same pods are bound with the same effect, which may depend on the order of binding.
	State() uint64
}
