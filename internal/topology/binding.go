// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"hash/fnv"
	"strconv"

	corev1 "k8s.io/api/core/v1"
)

// Binder reads rules for pods that go beyond the resources, ports, taints and labels of one node: rules about other pods, volumes and
// devices. The owner of the cluster sets [Cluster.Binders].
type Binder interface {
	// Bind returns the rules for pods of the shapes in the current cluster, for one plan on one tree; nil when there are none.
	Bind(c *Cluster, t *Tree, shapes []*Shape) Binding
}

// Binding is the state of a Binder for one plan. It receives every pod that the plan adds to a node or removes from a node
// ([Cluster.Follow]), so its answers always apply to the current state of the search. If a Binding has a method End, this method is called
// when the plan ends.
type Binding interface {
	// Rule returns the rule for pods of one of the plan's shapes ([Shape.With]); nil when these pods have no rule.
	Rule(s *Shape) Rule
	// Excludes returns the reason why a node takes no further pod of the shape, given the pods that are currently on nodes; "" for none.
	// scope is the domain that must hold the pod.
	Excludes(s *Shape, n NodeID, scope DomainID) string
	// Bars is like Excludes, but returns only reasons that remain valid whatever further pods the plan adds. A node that Bars allows may
	// still be excluded in the end.
	Bars(s *Shape, n NodeID, scope DomainID) string
	// Order analyses in which orders the given pods can be bound. The caller must have removed all these pods from their nodes. Order
	// returns nil when the order of the pods does not matter.
	Order(pods []Waiting) Order
	// Mark is equal for two nodes that the rules do not distinguish.
	Mark(n NodeID) uint64

	// Put adds k pods of a shape of the plan to a node, or removes them when k is negative. PutPod does the same for a pod object, which
	// may or may not belong to the plan.
	Put(s *Shape, n NodeID, k int)
	PutPod(pod *corev1.Pod, n NodeID, k int)
}

// Rule restricts the nodes for pods of a shape.
type Rule interface {
	// Key is equal for rules whose pods are interchangeable.
	Key() string
	// Keeps returns, by a node's name and labels, the reason that keeps the pods off the node regardless of the rest of the plan; "" for
	// none.
	Keeps(node string, labels map[string]string) string
	// Together reports whether the rule also depends on the other pods of the plan.
	Together() bool
}

// Counter is a Rule that limits the number of its pods on a node. The limit depends only on the pods that are on this node in the current
// state of the plan.
type Counter interface {
	Rule
	// Room returns how many further pods a node holds; false for no limit.
	Room(node string) (n int32, limited bool)
	// Full returns the reason why a node without room takes no further pod.
	Full(node string) string
}

// With returns the shape of pods to which a rule applies. Such pods are pinned to their planned host, because the kube-scheduler decides
// host by host and does not know the plan.
func (s *Shape) With(r Rule) *Shape {
	out := *s
	out.rules = append(out.rules[:len(out.rules):len(out.rules)], r)
	out.key = s.key + "|r:" + strconv.Quote(r.Key())
	if out.plain == nil {
		out.plain = s
	}
	return &out
}

// Rules returns the rules that With added.
func (s *Shape) Rules() []Rule { return s.rules }

// RuleOf returns the shape's rule of type R, which is the rule type of one binding; the zero value if there is none.
func RuleOf[R Rule](s *Shape) (own R) {
	for _, r := range s.rules {
		if of, is := r.(R); is {
			return of
		}
	}
	return own
}

// Together reports whether the nodes for the pods depend on other pods of the plan. If so, the host-by-host count is an upper bound.
func (s *Shape) Together() bool {
	for _, r := range s.rules {
		if r.Together() {
			return true
		}
	}
	return false
}

// Pod returns the pod that the shape was read from. Callers must not change it.
func (s *Shape) Pod() *corev1.Pod { return s.pod }

// kept returns the rule that keeps pods off a node regardless of the rest of the plan.
func (c *Cluster) kept(n *node, s *Shape) (Exclusion, bool) {
	for _, r := range s.rules {
		c.work++
		if why := r.Keeps(n.name, n.spec.labels); why != "" {
			return Exclusion{Kind: KindRule, Detail: why}, true
		}
	}
	return Exclusion{}, false
}

// Bindings returns the bindings for the pods of a plan.
func (c *Cluster) Bindings(t *Tree, shapes []*Shape) []Binding {
	var out []Binding
	for _, binder := range c.Binders {
		if b := binder.Bind(c, t, shapes); b != nil {
			out = append(out, b)
		}
	}
	return out
}

// Follow reports to the bindings every pod that is added to a node or removed from it, until end is called.
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

// within limits fit, the number of pods that fit on a node, to the number that the shape's rules allow.
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

// full returns the rule because of which a node has no room for a further pod.
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

// followed reports to the bindings that a view added k pods of a shape to a node.
func (c *Cluster) followed(s *Shape, n NodeID, k int) {
	for _, b := range c.following {
		b.Put(s, n, k)
	}
}

// followedRecord reports to the bindings that a pod was added to a node or removed from it.
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

// LabelsOf returns the labels of a node, nil when it has no object. Callers must not change them.
func (c *Cluster) LabelsOf(n NodeID) map[string]string { return c.nodes[n].spec.labels }

// EachNode calls f for every node that has an object.
func (c *Cluster) EachNode(f func(NodeID)) {
	for _, n := range c.nodes {
		if n != nil && n.spec.present {
			f(n.id)
		}
	}
}

// Selects reports whether a node matches the selector and the required affinity of a shape.
func (c *Cluster) Selects(s *Shape, n NodeID) bool {
	_, mismatch := c.labelsMismatch(c.nodes[n], s)
	return !mismatch
}

// Tolerates reports whether pods of a shape tolerate all NoSchedule and NoExecute taints of a node.
func (c *Cluster) Tolerates(s *Shape, n NodeID) bool {
	for i := range c.nodes[n].spec.taints {
		if !c.tolerated(s, &c.nodes[n].spec.taints[i]) {
			return false
		}
	}
	return true
}

// HashOf returns a number that is equal for equal texts.
func HashOf(texts ...string) uint64 {
	h := fnv.New64a()
	for _, text := range texts {
		_, _ = h.Write([]byte(text))
		_, _ = h.Write([]byte{0})
	}
	return h.Sum64()
}

// unruled returns the shape without the rules of a plan.
func (s *Shape) unruled() *Shape {
	if s.plain != nil {
		return s.plain
	}
	return s
}
