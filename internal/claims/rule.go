// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// rule contains the node constraints that a class's claims impose before the plan. During the plan, it bounds the number of the class's
// pods per node.
type rule struct {
	key      string
	binding  *binding
	class    *class
	together bool
	// kept is, by node, the reason that keeps the pods off the node. base is, by node, the maximum number of pods that the node holds at
	// the start of the plan; nodes without a limit are omitted.
	kept map[string]string
	base map[string]int32
	// blocked is the reason that keeps the pods off every node until an object changes; "" for none.
	blocked string
}

// judge creates the rules, based on the devices that are taken before the plan.
func (b *binding) judge() {
	asking := 0
	for _, c := range b.classes() {
		if c.asks() {
			asking++
		}
	}
	alone := true
	b.cluster.EachNode(func(n topology.NodeID) { alone = b.host(b.cluster.NodeName(n)).alone && alone })
	for _, c := range b.classes() {
		c.rule = &rule{binding: b, class: c, kept: map[string]string{}, base: map[string]int32{}}
		if at := slices.IndexFunc(c.claims, func(one *claim) bool { return one.unusable != "" }); at >= 0 {
			c.rule.blocked = c.claims[at].unusable
		}
		c.rule.together = c.asks() && (asking > 1 || len(c.sharing()) > 0 || !alone)
		texts := []string{"claims", c.text, strconv.FormatBool(c.rule.together)}
		b.cluster.EachNode(func(n topology.NodeID) {
			b.cluster.Spend(1 + len(c.claims))
			name := b.cluster.NodeName(n)
			why := b.keeps(c, b.host(name))
			if why != "" {
				c.rule.kept[name] = why
				return
			}
			if room, limited := c.rule.Room(name); limited {
				c.rule.base[name] = room
				texts = append(texts, name+"="+strconv.Itoa(int(room)))
			}
		})
		for name, why := range c.rule.kept {
			texts = append(texts, name+":"+why)
		}
		slices.Sort(texts)
		c.rule.key = "claims " + strconv.FormatUint(topology.HashOf(texts...), 16)
		b.ofRule[c.rule] = c
	}
}

// classes returns the classes of the plan's pods, sorted by their texts.
func (b *binding) classes() (list []*class) {
	for _, c := range b.ofShape {
		if !slices.Contains(list, c) {
			list = append(list, c)
		}
	}
	slices.SortFunc(list, func(x, y *class) int { return strings.Compare(x.text, y.text) })
	return list
}

// asks reports whether pods of the class need an allocation.
func (c *class) asks() bool {
	return len(c.served) > 0 || slices.ContainsFunc(c.claims, func(c *claim) bool { return c.object != nil })
}

// keeps returns the reason that keeps pods of a class off a node before the plan.
func (b *binding) keeps(c *class, h *host) string {
	for _, one := range c.claims {
		if why := one.keeps(h.node); why != "" {
			return why
		}
	}
	for _, one := range c.sharing() {
		if of := b.shared[one.name]; of != nil && !of.reaches(h) {
			return one.title + " is allocated elsewhere" // for a pod outside the plan
		}
	}
	return b.never(c, h)
}

// never returns the reason that keeps one more pod of a class off a node with the devices that are free now, whichever pod allocates the
// shared claims.
func (b *binding) never(c *class, h *host) string {
	for _, one := range c.sharing() {
		switch of := b.shared[one.name]; {
		case of == nil && h.alone: // the claim is to be allocated on this node
			by := b.only(c.namespace, one)
			if why := b.ask(by, h.hostDevices, h.taken, 0, 0).why(by); why != "" {
				return why
			}
		case of != nil && of.at != h && of.at.alone && h.alone:
			return one.title + " is allocated elsewhere"
		}
	}
	return b.ask(c, h.hostDevices, h.taken, 1<<len(c.claims)-1, b.lacksOf(c, h)).why(c)
}

// only returns the class of pods whose only claim is the given claim.
func (b *binding) only(namespace string, one *claim) *class {
	text := namespace + "\x00" + one.text
	if b.byText[text] == nil {
		b.byText[text] = &class{text: text, namespace: namespace, claims: []*claim{one}, rooms: map[question]int32{}, told: map[*answer]string{}}
	}
	return b.byText[text]
}

// why returns the reason that currently keeps one more pod of a class off a node.
func (b *binding) why(c *class, h *host) string {
	for _, one := range c.sharing() {
		if of := b.shared[one.name]; of != nil && !of.reaches(h) {
			return one.title + " is allocated elsewhere"
		}
	}
	return b.ask(c, h.hostDevices, h.taken, b.have(c), b.lacksOf(c, h)).why(c)
}

// Key implements topology.Rule.
func (r *rule) Key() string { return r.key }

// Together implements topology.Rule.
func (r *rule) Together() bool { return r.together }

// Keeps implements topology.Rule.
func (r *rule) Keeps(node string, _ map[string]string) string { return r.kept[node] }

// Blocked implements topology.Blocker.
func (r *rule) Blocked() string { return r.blocked }

// Room implements topology.Counter.
func (r *rule) Room(node string) (n int32, limited bool) {
	switch {
	case r.binding == nil:
		n, limited = r.base[node]
		return n, limited
	case !r.class.asks():
		return 0, false
	}
	h := r.binding.host(node)
	return r.binding.room(r.class, h.hostDevices, h.taken, r.binding.lacksOf(r.class, h))
}

// Full implements topology.Counter.
func (r *rule) Full(node string) string {
	if r.binding == nil {
		return r.kept[node]
	}
	h := r.binding.host(node)
	a := r.binding.ask(r.class, h.hostDevices, h.taken, 1<<len(r.class.claims)-1, r.binding.lacksOf(r.class, h))
	return a.why(r.class)
}

// End removes the state of the plan from the rules. Views keep the rules and would otherwise keep that state in memory.
func (b *binding) End() {
	for r := range b.ofRule {
		r.binding, r.class = nil, nil
	}
}

// Excludes implements topology.Binding.
func (b *binding) Excludes(s *topology.Shape, n topology.NodeID, _ topology.DomainID) string {
	class := b.classOf(s)
	if class == nil || !class.rule.together {
		return ""
	}
	return b.why(class, b.host(b.cluster.NodeName(n)))
}

// Bars implements topology.Binding. Further pods only take more devices, so every exclusion is final. Classes with shared claims are an
// exception, because a later pod may allocate the shared claims elsewhere.
func (b *binding) Bars(s *topology.Shape, n topology.NodeID, scope topology.DomainID) string {
	class := b.classOf(s)
	if class == nil || !class.rule.together || len(class.sharing()) == 0 {
		return b.Excludes(s, n, scope)
	}
	return b.never(class, b.host(b.cluster.NodeName(n)))
}

// Mark implements topology.Binding.
func (b *binding) Mark(n topology.NodeID) (mark uint64) {
	h := b.host(b.cluster.NodeName(n))
	for _, c := range b.classes() {
		mark += b.store.like(h.hostDevices, c) + b.lacksOf(c, h)
		if c.rule != nil {
			mark += topology.HashOf(c.rule.kept[h.node.Name])
		}
	}
	return mark + h.taken.sum
}

// Uncounted returns the reason why some claims of a pod are not counted; "" when all claims are counted, or the pod has none.
func (s *Store) Uncounted(pod *corev1.Pod) string {
	if len(pod.Spec.ResourceClaims) == 0 {
		return ""
	}
	if why := s.Unknown(); why != "" {
		return why
	}
	for i := range pod.Spec.ResourceClaims {
		entry := &pod.Spec.ResourceClaims[i]
		one, known := s.claimOf(pod, entry)
		switch {
		case !known && entry.ResourceClaimTemplateName != nil:
			return "resource claim template " + *entry.ResourceClaimTemplateName + ", or a device class of it, is not known"
		case !known && entry.ResourceClaimName != nil:
			return "resource claim " + *entry.ResourceClaimName + ", or a device class of it, is not known"
		case !known:
			return unknown
		case one == nil:
		default:
			if why := s.beyondOf(one); why != "" {
				return why
			}
		}
	}
	return ""
}

// unknown is the reason for claims that are not counted because their objects or devices may not all be known.
const unknown = "they, their classes or devices are not known"

// Unknown returns the reason why no claim is counted; "" when claims are counted.
func (s *Store) Unknown() string {
	switch {
	case s.Allocator == nil:
		return unknown
	case s.Partial && len(s.slices) == 0:
		return unknown
	}
	return s.Beyond()
}
