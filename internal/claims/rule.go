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

// rule is what the claims of pods say of nodes, as these are before the plan, and how many pods each has room for in the course of it.
type rule struct {
	key      string
	binding  *binding
	class    *class
	together bool
	// kept is what keeps the pods off each node, and base how many each has room for before the plan, where that is limited.
	kept map[string]string
	base map[string]int32
}

// judge makes the rules by the devices that are taken before the plan.
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

// classes are those of the plan's pods, in order of their texts.
func (b *binding) classes() (list []*class) {
	for _, c := range b.ofShape {
		if !slices.Contains(list, c) {
			list = append(list, c)
		}
	}
	slices.SortFunc(list, func(x, y *class) int { return strings.Compare(x.text, y.text) })
	return list
}

// asks says that pods of the class take devices that others could have.
func (c *class) asks() bool {
	return len(c.served) > 0 || slices.ContainsFunc(c.claims, func(c *claim) bool { return c.object != nil })
}

// keeps says what keeps pods of a class off a node before the plan.
func (b *binding) keeps(c *class, h *host) string {
	for _, one := range c.claims {
		if why := one.keeps(h.node); why != "" {
			return why
		}
	}
	return b.why(c, h)
}

// why says what keeps one more pod of a class off a node, as the devices are.
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

// End frees what only the plan needs: the counts in domains keep the rules.
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

// Bars implements topology.Binding: pods only take devices that others might have.
func (b *binding) Bars(s *topology.Shape, n topology.NodeID, scope topology.DomainID) string {
	return b.Excludes(s, n, scope)
}

// Leads implements topology.Binding.
func (b *binding) Leads(*topology.Shape, topology.NodeID) bool { return false }

// maxOrders bounds the pods that are tried in another order on one node.
const maxOrders = 256

// Exceeds implements topology.Binding: in some order of the plan's pods on the node, one of them does not get its devices.
func (b *binding) Exceeds(s *topology.Shape, n topology.NodeID, _ topology.DomainID) bool {
	class := b.classOf(s)
	if class == nil || !class.rule.together {
		return false
	}
	h := b.host(b.cluster.NodeName(n))
	order := newOrders(b, h)
	return len(order.classes) > 1 && order.fails(h.taken, order.counts)
}

// orders are the orders in which the plan's pods on a node may be bound.
type orders struct {
	binding *binding
	host    *host
	classes []*class
	counts  []int
	tried   map[string]bool
}

func newOrders(b *binding, h *host) *orders {
	o := &orders{binding: b, host: h, tried: map[string]bool{}}
	for i := h.fixed; i < len(h.pods); i++ {
		at := slices.Index(o.classes, h.pods[i].class)
		if at < 0 {
			at, o.classes, o.counts = len(o.classes), append(o.classes, h.pods[i].class), append(o.counts, 0)
		}
		o.counts[at]++
	}
	return o
}

// fails reports whether some order fails from a state on: at first that of the node as it is, with all the pods on it.
func (o *orders) fails(from state, left []int) bool {
	if len(o.tried) == 0 { // the pods give back what they have
		for i := o.host.fixed; i < len(o.host.pods); i++ {
			for k := range o.host.pods[i].own {
				if r := &o.host.pods[i].own[k]; takes(r) {
					from.results, from.sum = without(from.results, r), from.sum-o.host.mark(r)
				}
			}
		}
	}
	key := strconv.FormatUint(from.sum, 16)
	for _, n := range left {
		key += " " + strconv.Itoa(n)
	}
	if o.tried[key] || len(o.tried) >= maxOrders {
		return false
	}
	o.tried[key] = true
	for i, c := range o.classes {
		if left[i] == 0 {
			continue
		}
		a := o.binding.ask(c, o.host.hostDevices, from, o.binding.have(c), o.binding.lacksOf(c, o.host))
		if a.refused != "" {
			return true
		}
		next, rest := from, slices.Clone(left)
		for k := range a.given {
			next = next.with(o.host.hostDevices, a.given[k].on(o.host.hostDevices))
		}
		if rest[i]--; o.fails(next, rest) {
			return true
		}
	}
	return false
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

// Uncounted says why the claims of a pod are not counted, or some of them; "" when all are, or there are none.
func (s *Store) Uncounted(pod *corev1.Pod) string {
	if len(pod.Spec.ResourceClaims) == 0 {
		return ""
	}
	if why := s.Unknown(); why != "" {
		return why
	}
	list, known := s.claimsOf(pod)
	for _, one := range list {
		if why := one.beyondOf(); why != "" {
			return why
		}
	}
	if !known {
		return unknown
	}
	return ""
}

// unknown is why claims are not counted whose objects, or devices, may not all be known.
const unknown = "they, their classes or devices are not known"

// Unknown says why no claim is counted; "" when claims are.
func (s *Store) Unknown() string {
	switch {
	case s.Allocator == nil:
		return unknown
	case s.Partial && len(s.slices) == 0:
		return unknown
	}
	return s.Beyond()
}
