// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

// Waiting is pods of one shape that are pinned to one node and not bound yet. Scope is the domain that has to hold them.
type Waiting struct {
	Shape *Shape
	Node  NodeID
	Scope DomainID
	Pods  int
}

// Order tells what the kube-scheduler does with waiting pods, whichever it tries first. Pods are named by their index. The answers are
// about the cluster as it is, while more and more of the pods are on their nodes.
type Order interface {
	// Ties are what a pod has in common with others for which it may matter who comes first. Pods without a common tie do not matter to
	// each other. Ties may end while pods are bound, and none begins.
	Ties(i int) []string
	// Refuses means that a pod is kept off the node that it is pinned to.
	Refuses(i int) bool
	// Free means that a pod that is not refused cannot be refused later, either, and that once it is bound no other pod is refused that was
	// not before.
	Free(i int) bool
	// Alike is equal for pods of one shape that may be exchanged for each other; "" for a pod that may not.
	Alike(i int) string
	// Orderly means that, if the waiting pods have no ties by other rules, some of them that are tied to each other can be bound in every
	// order, or that there is an order in which they cannot. It is known only where that follows from where the pods are.
	Orderly(some []int) (every, known bool)
	// State is equal when the same pods are bound with the same effect. It is asked where the effect depends on who came first.
	State() uint64
}
