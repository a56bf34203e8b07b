// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"hash/fnv"
	"strconv"

	corev1 "k8s.io/api/core/v1"
)

// Binder reads what binds pods beyond the resources, ports, taints and labels of one node: rules about other pods, volumes, devices. A
// cluster has the binders that its owner gives it. Pods that none of them binds cost nothing but the question.
type Binder interface {
	// Bind returns what binds pods of some shapes on a cluster as it is, for one plan on one tree; nil when nothing does.
	Bind(c *Cluster, t *Tree, shapes []*Shape) Binding
}

// Binding is what a Binder knows of the pods of one plan. It follows the pods that the plan puts on nodes and takes off them again
// ([Cluster.Follow]), so that its answers are about the cluster as the search has it. One that has a method End is told when the plan has
// ended.
type Binding interface {
	// Rule returns the rule of pods of one of the plan's shapes ([Shape.With]); nil when nothing binds them.
	Rule(s *Shape) Rule
	// Excludes describes what keeps one more pod off a node together with the pods that are on nodes now; "" for nothing. scope is the domain
	// that has to hold the pod whichever node it gets.
	Excludes(s *Shape, n NodeID, scope DomainID) string
	// Bars says the same where no further pod of the plan can change it. What it lets pass may still be excluded when all pods are on nodes.
	Bars(s *Shape, n NodeID, scope DomainID) string
	// Order answers in which orders pods of the plan can be bound that are off their nodes now; nil when their order does not matter.
	Order(pods []Waiting) Order
	// Mark is equal for two nodes that are alike in all that the rules ask.
	Mark(n NodeID) uint64

	// Put is told of k more pods of a shape of the plan on a node, fewer when k is negative, and PutPod of a pod, which may be one of the
	// plan.
	Put(s *Shape, n NodeID, k int)
	PutPod(pod *corev1.Pod, n NodeID, k int)
}

// Rule is what binds the pods of a shape.
type Rule interface {
	// Key is equal for rules that make pods interchangeable.
	Key() string
	// Keeps describes what keeps such pods off a node whatever the plan puts elsewhere, by the node's name and labels; "" for nothing.
	Keeps(node string, labels map[string]string) string
	// Together states that it takes more to answer: where the other pods of the plan are.
	Together() bool
}

// Counter is a Rule that bounds how many of its pods one node holds, as the plan has the cluster now. What bounds them on a node changes
// with the pods on it and with nothing else.
type Counter interface {
	Rule
	// Room is how many further pods a node holds; false for any number.
	Room(node string) (n int32, limited bool)
	// Full describes what keeps a further pod off a node that has no room.
	Full(node string) string
}

// With returns the shape of pods that a rule binds. The kube-scheduler decides by the host, and knows nothing of the plan, so such pods
// are pinned to their planned host.
func (s *Shape) With(r Rule) *Shape {
	out := *s
	out.rules = append(out.rules[:len(out.rules):len(out.rules)], r)
	out.key = s.key + "|r:" + strconv.Quote(r.Key())
	if out.plain == nil {
		out.plain = s
	}
	return &out
}

// Rules are those that were added by With.
func (s *Shape) Rules() []Rule { return s.rules }

// RuleOf returns the rule of a shape that has a type, which is that of one binding; its zero value for none.
func RuleOf[R Rule](s *Shape) (own R) {
	for _, r := range s.rules {
		if of, is := r.(R); is {
			return of
		}
	}
	return own
}

// Together reports whether where such pods may go depends on where other pods of the plan are, so that counting them host by host is an
// upper bound.
func (s *Shape) Together() bool {
	for _, r := range s.rules {
		if r.Together() {
			return true
		}
	}
	return false
}

// Pod is the pod that the shape was read from. It must not be changed.
func (s *Shape) Pod() *corev1.Pod { return s.pod }

// kept reports which rule keeps pods off a node whatever the plan puts elsewhere.
func (c *Cluster) kept(n *node, s *Shape) (Exclusion, bool) {
	for _, r := range s.rules {
		c.work++
		if why := r.Keeps(n.name, n.spec.labels); why != "" {
			return Exclusion{Kind: KindRule, Detail: why}, true
		}
	}
	return Exclusion{}, false
}

// Bindings returns what binds the pods of a plan.
func (c *Cluster) Bindings(t *Tree, shapes []*Shape) []Binding {
	var out []Binding
	for _, binder := range c.Binders {
		if b := binder.Bind(c, t, shapes); b != nil {
			out = append(out, b)
		}
	}
	return out
}

// Follow has bindings told of every pod that is put on a node or taken off one, until the function that it returns is called.
func (c *Cluster) Follow(bindings []Binding) (end func()) {
	before := c.following
	c.following = bindings
	return func() {
		c.following = before
		for _, b := range bindings {
			if ends, is := b.(interface{ End() }); is {
				ends.End()
			}
		}
	}
}

// within bounds a count of pods on a node by their rules.
func (s *Shape) within(n *node, fit int32) int32 {
	for _, r := range s.rules {
		if c, counts := r.(Counter); counts && fit > 0 {
			if room, limited := c.Room(n.name); limited {
				fit = min(fit, room)
			}
		}
	}
	return fit
}

// full reports which rule has no room for a further pod on a node.
func (c *Cluster) full(n *node, s *Shape) (Exclusion, bool) {
	for _, r := range s.rules {
		counter, counts := r.(Counter)
		if !counts {
			continue
		}
		c.work++
		if room, limited := counter.Room(n.name); limited && room == 0 {
			return Exclusion{Kind: KindRule, Detail: counter.Full(n.name)}, true
		}
	}
	return Exclusion{}, false
}

// followed tells the bindings of pods of a view.
func (c *Cluster) followed(s *Shape, n NodeID, k int) {
	for _, b := range c.following {
		b.Put(s, n, k)
	}
}

// followedRecord tells the bindings of a pod that is counted, or no longer.
func (c *Cluster) followedRecord(r *record, k int) {
	if len(c.following) == 0 || r.pod == nil {
		return
	}
	for _, b := range c.following {
		b.PutPod(r.pod, r.node.id, k)
	}
}

// EachPod calls f for every pod that is bound or has a reservation, in no particular order.
func (c *Cluster) EachPod(f func(pod *corev1.Pod, n NodeID)) {
	for _, r := range c.pods {
		if r.pod != nil {
			f(r.pod, r.node.id)
		}
	}
}

// LabelsOf returns the labels of a node, nil when it has no object. They must not be changed.
func (c *Cluster) LabelsOf(n NodeID) map[string]string { return c.nodes[n].spec.labels }

// EachNode calls f for every node that has an object.
func (c *Cluster) EachNode(f func(NodeID)) {
	for _, n := range c.nodes {
		if n != nil && n.spec.present {
			f(n.id)
		}
	}
}

// Selects reports whether the selector and the required affinity of a shape take a node.
func (c *Cluster) Selects(s *Shape, n NodeID) bool {
	_, mismatch := c.labelsMismatch(c.nodes[n], s)
	return !mismatch
}

// Tolerates reports whether pods of a shape tolerate all taints of a node that keep pods off.
func (c *Cluster) Tolerates(s *Shape, n NodeID) bool {
	for i := range c.nodes[n].spec.taints {
		if !c.tolerated(s, &c.nodes[n].spec.taints[i]) {
			return false
		}
	}
	return true
}

// HashOf is a number that is equal for equal texts.
func HashOf(texts ...string) uint64 {
	h := fnv.New64a()
	for _, text := range texts {
		_, _ = h.Write([]byte(text))
		_, _ = h.Write([]byte{0})
	}
	return h.Sum64()
}

// unruled is the shape without the rules of a plan.
func (s *Shape) unruled() *Shape {
	if s.plain != nil {
		return s.plain
	}
	return s
}
