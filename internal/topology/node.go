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

// NodeID identifies a node of a Cluster. It is stable while the node has an object or pods.
type NodeID int32

// node is the state of one node. A node may have pods but no object: before its object arrives, or after its object is deleted.
type node struct {
	name string
	id   NodeID
	spec nodeSpec
	// free is the amount that the node offers, and used the amount that its pods use, by the index of the resource. Either list may be
	// shorter than the list of resources.
	free, used []int64
	// pods counts the records on the node, reservations included.
	pods  int
	ports portSet
	// rules counts the pods with each one-per-host rule.
	rules    map[string]int
	reserved []string
	// bound lists the IDs of the pods that are bound to the node.
	bound []string
	// reservedFor is the name for which the whole node is reserved; see [Cluster.ReserveNode].
	reservedFor string
	// version identifies a spec, also across nodes that reuse the ID; never 0.
	version uint64
}

// nodeSpec is the part of a node object that affects placement; the zero value is a node without an object.
type nodeSpec struct {
	present  bool
	cordoned bool
	notReady bool
	// leaving: the node is about to be removed and takes no pods, regardless of their tolerations.
	leaving bool
	labels  map[string]string
	taints  []corev1.Taint
	// soft are the taints with the effect PreferNoSchedule: the kube-scheduler avoids such a node but does not exclude it.
	soft []corev1.Taint
	// offers are the allocatable resources of the node, by name.
	offers []Request
	// features are the declared features of the node.
	features featureSet
}

// held is a load in one Cluster. It identifies resources by their indexes in this Cluster.
type held struct {
	key       string
	wants     []want
	ports     []hostPort
	exclusive []string
	refs      int
}

// want is the amount of one resource in a load. resource is the index of the resource, or notOffered.
type want struct {
	name     string
	resource int
	amount   int64
	// ignored: not counted; served: counted only on nodes that offer it.
	ignored, served bool
}

// needsLess reports whether the load needs less of some resource than another load.
func (h *held) needsLess(than *held) bool {
	mine := make(map[string]int64, len(h.wants))
	for _, w := range h.wants {
		mine[w.name] = w.amount
	}
	return slices.ContainsFunc(than.wants, func(w want) bool { return mine[w.name] < w.amount })
}

// Ready reports whether a node's Ready condition allows pods. A node without the condition is considered ready, because the node lifecycle
// controller taints such a node.
func Ready(n *corev1.Node) bool {
	return !slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue
	})
}

func (c *Cluster) specOf(n *corev1.Node) nodeSpec {
	spec := nodeSpec{present: true, cordoned: n.Spec.Unschedulable, notReady: !Ready(n), leaving: c.leaving.Why(n) != "", labels: n.Labels,
		offers: offersOf(n), features: declaredBy(n)}
	for _, t := range n.Spec.Taints {
		switch taint := (corev1.Taint{Key: t.Key, Value: t.Value, Effect: t.Effect}); t.Effect {
		case corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute:
			spec.taints = append(spec.taints, taint)
		case corev1.TaintEffectPreferNoSchedule:
			spec.soft = append(spec.soft, taint)
		}
	}
	return spec
}

func (s *nodeSpec) equal(o *nodeSpec) bool {
	return s.present == o.present && s.cordoned == o.cordoned && s.notReady == o.notReady && s.leaving == o.leaving &&
		maps.Equal(s.labels, o.labels) && equality.Semantic.DeepEqual(s.taints, o.taints) && equality.Semantic.DeepEqual(s.soft, o.soft) &&
		slices.Equal(s.offers, o.offers) && s.features.Equal(o.features)
}

// available returns the unused amount of a resource; negative when the pods use more than the node now offers.
func (n *node) available(resource int) int64 {
	var v int64
	if resource == notOffered {
		return 0
	}
	if resource < len(n.free) {
		v = n.free[resource]
	}
	if resource < len(n.used) {
		v -= n.used[resource]
	}
	return v
}

// fits returns how many pods with a load fit into the unused capacity of a node, regardless of other exclusions.
func (c *Cluster) fits(n *node, h *held) int32 {
	most := int64(math.MaxInt32)
	for i := range h.wants {
		w := &h.wants[i]
		if c.work++; !n.counts(w) {
			continue
		}
		left := n.available(w.resource)
		if left < w.amount {
			return 0
		}
		most = min(most, left/w.amount)
	}
	if len(h.ports) == 0 && len(h.exclusive) == 0 {
		return int32(most)
	}
	if _, taken := c.portTaken(n, h); taken || c.ruleTaken(n, h) {
		return 0
	}
	return int32(min(most, 1))
}

// portTaken returns the first port of the pods that is in use on the node.
func (c *Cluster) portTaken(n *node, h *held) (hostPort, bool) {
	if len(n.ports) == 0 {
		return hostPort{}, false
	}
	for _, mine := range h.ports {
		if c.work++; n.ports.conflicts(mine) {
			return mine, true
		}
	}
	return hostPort{}, false
}

func (c *Cluster) ruleTaken(n *node, h *held) bool {
	if len(n.rules) == 0 {
		return false
	}
	for _, key := range h.exclusive {
		if c.work++; n.rules[key] > 0 {
			return true
		}
	}
	return false
}

// add counts k more pods with a load on a node; a negative k removes pods.
func (c *Cluster) add(n *node, h *held, k int) {
	for _, w := range h.wants {
		c.work++
		if w.resource != notOffered {
			n.use(w.resource, int64(k)*w.amount)
		}
	}
	if len(h.ports) > 0 && n.ports == nil {
		n.ports = portSet{}
	}
	for _, p := range h.ports {
		c.work++
		n.ports.add(p, k)
	}
	if len(h.exclusive) > 0 && n.rules == nil {
		n.rules = map[string]int{}
	}
	for _, key := range h.exclusive {
		c.work++
		if n.rules[key] += k; n.rules[key] <= 0 {
			delete(n.rules, key)
		}
	}
}

// Overbooked reports whether bound pods and reservations use more of some resource than a node offers, so that some pods must be removed
// from the node.
func (c *Cluster) Overbooked(node string) bool {
	n, ok := c.byName[node]
	if !ok {
		return false
	}
	for resource := range n.used {
		if n.used[resource] > 0 && n.available(resource) < 0 {
			return true
		}
	}
	return false
}

// Load returns the number of reservations on a node plus the number of its bound pods that are not being deleted.
func (c *Cluster) Load(n NodeID) int {
	load := len(c.nodes[n].reserved)
	for _, id := range c.nodes[n].bound {
		if c.pods[id].leaving == nil {
			load++
		}
	}
	return load
}
