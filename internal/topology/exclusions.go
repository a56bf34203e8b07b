// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
)

// Kind classifies the reason that keeps pods off a node.
type Kind string

// The kinds of exclusion, in the order in which they are checked.
const (
	KindCordoned     Kind = "cordoned"
	KindLeaving      Kind = "about to be removed"
	KindNotReady     Kind = "not ready"
	KindReserved     Kind = "reserved"
	KindAvoided      Kind = "avoided"
	KindRefused      Kind = "refused by the scheduler"
	KindTaint        Kind = "taint"
	KindNodeSelector Kind = "node selector"
	KindNodeAffinity Kind = "node affinity"
	KindFeature      Kind = "feature"
	KindHostPort     Kind = "host port"
	KindOnePerHost   Kind = "one per host"
	KindResource     Kind = "resource"
	KindRule         Kind = "rule"
)

// Exclusion is the reason why a node takes no pod, or no further pod, of a shape.
type Exclusion struct {
	Kind Kind
	// Detail is the taint ("key=value:NoSchedule"), the name for which the node is reserved, the insufficient resource ("pods": no pod slot
	// left), the host port ("8080/TCP"), the undeclared features ("A, B"), or the reason of a rule ([Rule]).
	Detail string
	// Have and Need are the free and the requested amount of the resource.
	Have, Need int64
}

// String returns the text that follows a number of hosts in a message: "cordoned", "taint a=b:NoSchedule", "short of nvidia.com/gpu", "pod
// slots used up".
func (e Exclusion) String() string {
	switch {
	case e.Kind == KindTaint:
		return "taint " + e.Detail
	case e.Kind == KindReserved:
		return "reserved for " + e.Detail
	case e.Kind == KindRule:
		return e.Detail
	case e.Kind == KindFeature && strings.Contains(e.Detail, ", "):
		return "lacking features " + e.Detail
	case e.Kind == KindFeature:
		return "lacking feature " + e.Detail
	case e.Kind == KindHostPort:
		return "short of host port " + e.Detail
	case e.Kind == KindOnePerHost:
		return "taken by one-per-host pod"
	case e.Kind == KindNodeSelector, e.Kind == KindNodeAffinity:
		return string(e.Kind) + " mismatch"
	case e.Kind == KindResource && e.Detail == string(corev1.ResourcePods):
		return "pod slots used up"
	case e.Kind == KindResource:
		return "short of " + e.Detail
	}
	return string(e.Kind)
}

// State returns the text that follows "the node is" in a message: "cordoned", "tainted a=b:NoSchedule", "short of nvidia.com/gpu (4 of 8)".
func (e Exclusion) State() string {
	switch e.Kind {
	case KindTaint:
		return "tainted " + e.Detail
	case KindNodeSelector, KindNodeAffinity:
		return "no longer selected (" + string(e.Kind) + " mismatch)"
	case KindResource:
		return fmt.Sprintf("%s (%d of %d)", e.String(), e.Have, e.Need)
	}
	return e.String()
}

// Why returns the reason that keeps a further pod of the shape off a node; false when a further pod fits, or when the node is unknown.
func (c *Cluster) Why(name string, s *Shape) (Exclusion, bool) {
	n, ok := c.byName[name]
	if !ok {
		return Exclusion{}, false
	}
	h := c.intern(&s.load)
	h.refs++
	defer c.unref(h)
	return c.why(n, s, h)
}

// Why returns the reason that keeps a further pod of the shape off a node; false when a further pod fits.
func (v *View) Why(n NodeID) (Exclusion, bool) {
	if v.NodeFit(n) > 0 {
		return Exclusion{}, false
	}
	c := v.tree.cluster
	node := c.nodes[n]
	if v.admits[n] && v.seen[n] == node.version {
		return c.lacks(node, v.shape, v.held)
	}
	return c.why(node, v.shape, v.held)
}

func (c *Cluster) why(n *node, s *Shape, h *held) (Exclusion, bool) {
	if e, excluded := c.exclusion(n, s); excluded {
		return e, true
	}
	return c.lacks(n, s, h)
}

// lacks returns the reason why a node that admits the pods has no capacity for a further pod: a host port, a one-per-host rule, a resource,
// or a [Counter].
func (c *Cluster) lacks(n *node, s *Shape, h *held) (Exclusion, bool) {
	if port, taken := c.portTaken(n, h); taken {
		return Exclusion{Kind: KindHostPort, Detail: port.name()}, true
	}
	if c.ruleTaken(n, h) {
		return Exclusion{Kind: KindOnePerHost}, true
	}
	if e, short := c.shortest(n, h); short {
		return e, true
	}
	return c.full(n, s)
}

// shortest returns the resource with the largest shortage relative to the request of one pod.
func (c *Cluster) shortest(n *node, h *held) (Exclusion, bool) {
	var worst Exclusion
	found := false
	for i := range h.wants {
		w := &h.wants[i]
		c.work++
		have := max(n.available(w.resource), 0)
		if have >= w.amount || !n.counts(w) {
			continue
		}
		if !found || float64(have)/float64(w.amount) < float64(worst.Have)/float64(worst.Need) {
			worst = Exclusion{Kind: KindResource, Detail: w.name, Have: have, Need: w.amount}
			found = true
		}
	}
	return worst, found
}

// exclusion checks all conditions of the kube-scheduler and Trellis that do not depend on the node's pods.
func (c *Cluster) exclusion(n *node, s *Shape) (Exclusion, bool) {
	if e, closed := c.closed(n, s); closed {
		return e, true
	}
	if slices.Contains(s.avoid, n.name) {
		return Exclusion{Kind: KindAvoided}, true
	}
	if c.refuses(s, n) {
		return Exclusion{Kind: KindRefused}, true
	}
	if e, mismatch := c.mismatch(n, s); mismatch {
		return e, true
	}
	if n.spec.leaving { // even if the pods tolerate the taint that marks the node
		return Exclusion{Kind: KindLeaving}, true
	}
	return c.kept(n, s)
}

// closed checks whether the node takes pods now. A node that is not ready is excluded even for pods that tolerate its taint, because a gang
// member would not start there.
func (c *Cluster) closed(n *node, s *Shape) (Exclusion, bool) {
	if n.spec.cordoned && !c.tolerated(s, &unschedulable) {
		return Exclusion{Kind: KindCordoned}, true
	}
	if n.spec.notReady || !n.spec.present {
		return Exclusion{Kind: KindNotReady}, true
	}
	if n.reservedFor != "" {
		return Exclusion{Kind: KindReserved, Detail: n.reservedFor}, true
	}
	return Exclusion{}, false
}

// mismatch checks the pods' tolerations, selector, affinity and features against a node, whether or not the node takes pods now.
func (c *Cluster) mismatch(n *node, s *Shape) (Exclusion, bool) {
	if e, tainted := c.tainted(n, s); tainted {
		return e, true
	}
	if e, mismatch := c.labelsMismatch(n, s); mismatch {
		return e, true
	}
	return c.lacksFeatures(n, s)
}

// tainted returns a taint of the node that the pods do not tolerate.
func (c *Cluster) tainted(n *node, s *Shape) (Exclusion, bool) {
	for i := range n.spec.taints {
		if t := &n.spec.taints[i]; t.Key != corev1.TaintNodeUnschedulable && !c.tolerated(s, t) {
			return Exclusion{Kind: KindTaint, Detail: t.ToString()}, true
		}
	}
	return Exclusion{}, false
}

// labelsMismatch checks the pods' selector and affinity against a node.
func (c *Cluster) labelsMismatch(n *node, s *Shape) (Exclusion, bool) {
	c.work += uint64(len(s.selector) + s.affinityEntries)
	if !matches(s.selector, n.spec.labels) {
		return Exclusion{Kind: KindNodeSelector}, true
	}
	if s.hasAffinity {
		c.scratch.Name, c.scratch.Labels = n.name, n.spec.labels
		if ok, err := s.affinity.Match(&c.scratch); err != nil || !ok {
			return Exclusion{Kind: KindNodeAffinity}, true
		}
	}
	return Exclusion{}, false
}

var unschedulable = corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}

func (c *Cluster) tolerated(s *Shape, t *corev1.Taint) bool {
	c.work += uint64(len(s.tolerations))
	return len(s.tolerations) > 0 && corev1helpers.TolerationsTolerateTaint(klog.Logger{}, s.tolerations, t, false)
}
