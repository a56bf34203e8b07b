// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package affinity

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/trellis-k8s/trellis/internal/bools"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// order contains the rules of pods that are bound one after the other. The order of binding matters for two kinds of rules: for affinity,
// where a first pod must be bound before the pods that need it, and for spread constraints.
//
// If a constraint honors node affinity, the kube-scheduler evaluates it only on the host to which the pod is pinned. It evaluates all other
// constraints over all nodes, so a domain that has too many pods now may be allowed later.
type order struct {
	*binding
	pods    []topology.Waiting
	classes []*class
	ties    [][]string
	// leading contains the affinities for which a waiting pod may be the first matching pod.
	leading map[*group]bool
	// refusing contains the constraints that may refuse a pod in some order.
	refusing map[*spread]bool
}

// Order implements topology.Binding.
func (b *binding) Order(pods []topology.Waiting) topology.Order {
	o := &order{binding: b, pods: pods, leading: map[*group]bool{}, refusing: map[*spread]bool{}}
	owned := map[*group]bool{}
	for i := range pods {
		c := b.classOf(pods[i].Shape)
		o.classes = append(o.classes, c)
		if c != nil && c.affinity != nil {
			owned[c.affinity] = true
			o.leading[c.affinity] = o.leading[c.affinity] || c.affinity.by[c]
		}
	}
	of := map[*spread]bool{}
	for i, c := range o.classes {
		if c == nil {
			continue
		}
		for _, s := range c.spreads {
			of[s] = true
			o.refusing[s] = o.refusing[s] || o.mayRefuse(s, i)
		}
	}
	o.ties = make([][]string, len(pods))
	for i, c := range o.classes {
		o.ties[i] = c.ties(owned, of)
	}
	return o
}

// ties lists the affinities in owned and the spread constraints in of that the class has itself or that count the class's pods.
func (c *class) ties(owned map[*group]bool, of map[*spread]bool) (list []string) {
	if c == nil {
		return nil
	}
	if c.affinity != nil {
		list = append(list, "affinity "+c.affinity.text())
	}
	for _, g := range c.groups {
		if owned[g] {
			list = append(list, "affinity "+g.text())
		}
	}
	for _, s := range slices.Concat(c.spreads, c.effect.spread) {
		if of[s] {
			list = append(list, "spread "+s.text())
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// counted returns how many waiting pods a constraint counts in the i-th pod's domain, or on the i-th pod's node if the constraint honors
// affinity.
func (o *order) counted(s *spread, i int) (pods int) {
	value := o.cluster.LabelsOf(o.pods[i].Node)[s.key]
	for k, c := range o.classes {
		switch n := o.pods[k].Node; {
		case c == nil || !s.by[c]:
		case s.affinity && n == o.pods[i].Node, !s.affinity && s.counts(o.cluster, n) && o.cluster.LabelsOf(n)[s.key] == value:
			pods += o.pods[k].Pods
		}
	}
	return pods
}

// extra returns 1 if a constraint counts the i-th pod only while the pod is new, and not once it is bound; 0 otherwise.
func (o *order) extra(s *spread, i int) int {
	return bools.Int(s.selects(o.classes[i]) && !s.by[o.classes[i]])
}

// mayRefuse reports whether a constraint refuses the i-th pod in the worst case: all other waiting pods are bound before it, and none of
// them in a domain with the fewest pods.
func (o *order) mayRefuse(s *spread, i int) bool {
	n, more := o.pods[i].Node, o.counted(s, i)+o.extra(s, i)
	if s.affinity {
		return s.exceededOn(n, more)
	}
	return s.exceeded(o.binding, more, n, topology.Nowhere) != ""
}

// exceedsLast reports whether a constraint refuses the i-th pod after all other waiting pods are bound.
func (o *order) exceedsLast(s *spread, i int) bool {
	n, more := o.pods[i].Node, o.counted(s, i)+o.extra(s, i)
	if s.affinity {
		return s.exceededOn(n, more)
	}
	now := s.of(o.binding, topology.Nowhere)
	pods := maps.Clone(now.pods)
	for k, c := range o.classes {
		if at := o.pods[k].Node; c != nil && s.by[c] && s.counts(o.cluster, at) {
			pods[o.cluster.LabelsOf(at)[s.key]] += o.pods[k].Pods
		}
	}
	least := 0
	if len(pods) >= s.minDomains {
		least = slices.Min(slices.Collect(maps.Values(pods)))
	}
	value := o.cluster.LabelsOf(n)[s.key]
	return pods[value]+o.extra(s, i)-least > s.maxSkew
}

// Ties implements topology.Order.
func (o *order) Ties(i int) []string { return o.ties[i] }

// Refuses implements topology.Order.
func (o *order) Refuses(i int) bool {
	c, n := o.classes[i], o.pods[i].Node
	if c == nil {
		return false
	}
	of := o.cluster.LabelsOf(n)
	o.cluster.Spend(1 + len(c.repels) + len(c.matched) + len(c.spreads))
	if c.repelled(of) != "" || c.affinity != nil && !c.affinity.met(of, c.affinity.by[c]) {
		return true
	}
	return slices.ContainsFunc(c.spreads, func(s *spread) bool {
		more := bools.Int(s.selects(c))
		if s.affinity {
			return s.exceededOn(n, more)
		}
		return s.exceeded(o.binding, more, n, topology.Nowhere) != ""
	})
}

// Free implements topology.Order.
func (o *order) Free(i int) bool {
	c := o.classes[i]
	switch {
	case c == nil:
		return true
	case c.affinity != nil && !c.affinity.met(o.cluster.LabelsOf(o.pods[i].Node), false):
		return false
	case slices.ContainsFunc(c.groups, func(g *group) bool { return g.pairs == 0 && o.leading[g] }):
		return false
	}
	return len(o.mayRefuseBy(c.spreads)) == 0 && len(o.mayRefuseBy(c.effect.spread)) == 0
}

// Alike implements topology.Order. Pods are alike if their nodes have the same values for all keys in the rules of waiting pods.
func (o *order) Alike(i int) string {
	c, of := o.classes[i], o.cluster.LabelsOf(o.pods[i].Node)
	if c == nil {
		return "any"
	}
	texts := []string{"alike"}
	add := func(key string) {
		value, has := of[key]
		texts = append(texts, value, strconv.FormatBool(has))
	}
	for _, g := range slices.Concat([]*group{c.affinity}, c.groups) {
		for k := 0; g != nil && k < len(g.terms); k++ {
			add(g.terms[k].key)
		}
	}
	for _, s := range o.mayRefuseBy(slices.Concat(c.spreads, c.effect.spread)) {
		if s.affinity {
			return "" // each host is a domain of its own
		}
		add(s.key)
		texts = append(texts, strconv.FormatBool(s.counts(o.cluster, o.pods[i].Node)))
	}
	return strings.Join(texts, "\x00")
}

// Orderly implements topology.Order. The answer is known if only spread constraints can refuse pods, and each pod with such a constraint
// has exactly one and is counted by no other constraint. A pod for the domain with the fewest pods can always be bound next. If no such pod
// remains, the count of this domain is the final minimum.
func (o *order) Orderly(some []int) (every, known bool) {
	for _, i := range some {
		c := o.classes[i]
		if c == nil {
			continue
		}
		own := o.mayRefuseBy(c.spreads)
		if c.affinity != nil || len(own) > 1 || slices.ContainsFunc(c.groups, func(g *group) bool { return o.leading[g] }) {
			return false, false
		}
		for _, s := range o.mayRefuseBy(c.effect.spread) {
			if len(own) > 0 && own[0] != s {
				return false, false
			}
		}
	}
	for _, i := range some {
		exceeds := func(s *spread) bool { return o.exceedsLast(s, i) }
		if c := o.classes[i]; c != nil && slices.ContainsFunc(o.mayRefuseBy(c.spreads), exceeds) {
			return false, true
		}
	}
	return true, true
}

// mayRefuseBy returns the constraints of a list that may refuse a pod in some order.
func (o *order) mayRefuseBy(list []*spread) (some []*spread) {
	for _, s := range list {
		if o.refusing[s] {
			some = append(some, s)
		}
	}
	return some
}

// State implements topology.Order. It is constant, because only the set of bound pods matters, not the order in which they were bound.
func (o *order) State() uint64 { return 0 }
