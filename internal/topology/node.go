// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"maps"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// NodeID addresses a node of a Cluster. It stays the same while the node has an object or pods.
type NodeID int32

// node is what the store knows of one node. A node may be known by its pods only, before its object arrives or after it is gone.
type node struct {
	name string
	id   NodeID
	spec nodeSpec
	used []int64
	// pods counts the records on the node, reservations included.
	pods     int
	ports    []hostPort
	rules    []rule
	reserved []string
	// bound are the pods bound here.
	bound []string
	// reservedFor names for whom the whole node is reserved; see [Cluster.ReserveNode].
	reservedFor string
	// version tells one spec from the next, also across nodes that reuse the id; never 0.
	version uint64
}

// nodeSpec is what the node object says; the zero value is a node without an object.
type nodeSpec struct {
	present  bool
	cordoned bool
	notReady bool
	labels   map[string]string
	taints   []corev1.Taint
	free     []int64
}

// rule counts the pods on a node that carry one "one of us per host" rule.
type rule struct {
	key  string
	pods int
}

// held is a load in the terms of one Cluster: resources by index.
type held struct {
	key       string
	wants     []want
	ports     []hostPort
	exclusive []string
	refs      int
}

type want struct {
	resource int
	amount   int64
}

// needsLess says that of some resource less is needed than by another load.
func (h *held) needsLess(than *held) bool {
	return slices.ContainsFunc(than.wants, func(w want) bool {
		return !slices.ContainsFunc(h.wants, func(mine want) bool { return mine.resource == w.resource && mine.amount >= w.amount })
	})
}

// podSlots is the index of the "pods" resource in every cluster: how many pods a node takes.
const podSlots = 0

// Ready says whether pods may go to a node by its condition Ready. A node without the condition has not been judged yet; the node lifecycle
// controller taints such nodes.
func Ready(n *corev1.Node) bool {
	return !slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue
	})
}

func (c *Cluster) specOf(n *corev1.Node) nodeSpec {
	spec := nodeSpec{present: true, cordoned: n.Spec.Unschedulable, notReady: !Ready(n), labels: n.Labels}
	for _, t := range n.Spec.Taints {
		if t.Effect == corev1.TaintEffectNoSchedule || t.Effect == corev1.TaintEffectNoExecute {
			spec.taints = append(spec.taints, corev1.Taint{Key: t.Key, Value: t.Value, Effect: t.Effect})
		}
	}
	spec.free = make([]int64, len(c.resourceNames))
	for name, quantity := range n.Status.Allocatable {
		i := c.resource(string(name))
		for len(spec.free) <= i {
			spec.free = append(spec.free, 0)
		}
		spec.free[i] = quantity.Value()
		if name == corev1.ResourceCPU {
			spec.free[i] = quantity.MilliValue()
		}
	}
	return spec
}

func (s *nodeSpec) equal(o *nodeSpec) bool {
	return s.present == o.present && s.cordoned == o.cordoned && s.notReady == o.notReady &&
		maps.Equal(s.labels, o.labels) && equality.Semantic.DeepEqual(s.taints, o.taints) && sameAmounts(s.free, o.free)
}

// sameAmounts ignores zeroes at the end: the vectors grow with the resource names seen.
func sameAmounts(a, b []int64) bool {
	n := min(len(a), len(b))
	isZero := func(v int64) bool { return v == 0 }
	return slices.Equal(a[:n], b[:n]) && !slices.ContainsFunc(a[n:], func(v int64) bool { return !isZero(v) }) &&
		!slices.ContainsFunc(b[n:], func(v int64) bool { return !isZero(v) })
}

// available is what is left of a resource; negative when more is bound than the node has now.
func (n *node) available(resource int) int64 {
	var v int64
	if resource < len(n.spec.free) {
		v = n.spec.free[resource]
	}
	if resource < len(n.used) {
		v -= n.used[resource]
	}
	return v
}

// fits is how many pods of a load fit what is left, whatever else keeps them out.
func (n *node) fits(h *held) int32 {
	most := int64(math.MaxInt32)
	for _, w := range h.wants {
		left := n.available(w.resource)
		if left < w.amount {
			return 0
		}
		most = min(most, left/w.amount)
	}
	if len(h.ports) == 0 && len(h.exclusive) == 0 {
		return int32(most)
	}
	if n.portTaken(h) || n.ruleTaken(h) {
		return 0
	}
	return int32(min(most, 1))
}

func (n *node) portTaken(h *held) bool {
	for _, mine := range h.ports {
		if slices.ContainsFunc(n.ports, mine.conflicts) {
			return true
		}
	}
	return false
}

func (n *node) ruleTaken(h *held) bool {
	for _, key := range h.exclusive {
		if slices.ContainsFunc(n.rules, func(r rule) bool { return r.key == key }) {
			return true
		}
	}
	return false
}

// add counts k more pods of a load (fewer, when k is negative).
func (n *node) add(h *held, k int64) {
	for _, w := range h.wants {
		if short := w.resource + 1 - len(n.used); short > 0 {
			n.used = append(n.used, make([]int64, max(short, len(n.spec.free)-len(n.used)))...)
		}
		n.used[w.resource] += k * w.amount
	}
	for _, p := range h.ports {
		n.addPort(p, k)
	}
	for _, key := range h.exclusive {
		n.addRule(key, int(k))
	}
}

func (n *node) addPort(p hostPort, k int64) {
	for ; k > 0; k-- {
		n.ports = append(n.ports, p)
	}
	for ; k < 0; k++ {
		if i := slices.Index(n.ports, p); i >= 0 {
			n.ports = slices.Delete(n.ports, i, i+1)
		}
	}
}

func (n *node) addRule(key string, k int) {
	i := slices.IndexFunc(n.rules, func(r rule) bool { return r.key == key })
	if i < 0 {
		i = len(n.rules)
		n.rules = append(n.rules, rule{key: key})
	}
	if n.rules[i].pods += k; n.rules[i].pods <= 0 {
		n.rules = slices.Delete(n.rules, i, i+1)
	}
}
