// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package affinity

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/trellis-k8s/trellis/internal/bools"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// Excludes implements topology.Binding. It excludes a node if the kube-scheduler would exclude it for the next pod.
func (b *binding) Excludes(s *topology.Shape, n topology.NodeID, scope topology.DomainID) string {
	c := b.classOf(s)
	if c == nil {
		return ""
	}
	of := b.cluster.LabelsOf(n)
	b.cluster.Spend(1 + len(c.repels) + len(c.matched) + len(c.spreads))
	if why := c.repelled(of); why != "" {
		return why
	}
	if g := c.affinity; g != nil && !g.met(of, g.by[c]) {
		return g.unmetAt(of)
	}
	for _, one := range c.spreads {
		if why := one.exceeded(b, bools.Int(one.selects(c)), n, scope); why != "" {
			return why
		}
	}
	return ""
}

// Bars implements topology.Binding. Pods that repel each other do so in any order of binding, so this exclusion is final. An affinity that
// no other pod of the plan can match is also final. All other rules are final only when all pods are on nodes.
func (b *binding) Bars(s *topology.Shape, n topology.NodeID, _ topology.DomainID) string {
	c := b.classOf(s)
	if c == nil {
		return ""
	}
	of := b.cluster.LabelsOf(n)
	b.cluster.Spend(1 + len(c.repels) + len(c.matched))
	if why := c.repelled(of); why != "" {
		return why
	}
	if g := c.affinity; g != nil && (len(g.by) == 0 || len(g.by) == 1 && g.by[c]) && !g.met(of, g.by[c]) {
		return g.unmetAt(of)
	}
	return ""
}

// repelled returns the anti-affinity that keeps pods of a class off a node; "" for none.
func (c *class) repelled(of map[string]string) string {
	for _, r := range c.repels {
		if value, has := of[r.key]; has && r.matching[value] > 0 {
			return r.repelsWhom(value)
		}
	}
	for _, r := range c.matched {
		if value, has := of[r.key]; has && r.owners[value] > 0 {
			return r.repelledBy(value)
		}
	}
	return ""
}

// met reports whether a node meets an affinity. itself: the pod matches its own affinity. Such a pod needs no other pod if no pod matches
// the affinity yet.
func (g *group) met(of map[string]string, itself bool) bool {
	all := true
	for i := range g.terms {
		value, has := of[g.terms[i].key]
		if !has {
			return false
		}
		all = all && g.counts[i][value] > 0
	}
	return all || itself && g.pairs == 0
}

func (g *group) unmetAt(of map[string]string) string {
	for i := range g.terms {
		if value, has := of[g.terms[i].key]; !has || g.counts[i][value] == 0 {
			return unmet(g.terms[i].key)
		}
	}
	return unmet(g.terms[0].key)
}

// exceeded returns the reason why the given number of additional pods on a node would exceed maxSkew; "" if they would not.
func (s *spread) exceeded(b *binding, more int, n topology.NodeID, scope topology.DomainID) string {
	value, has := b.cluster.LabelsOf(n)[s.key]
	if !has {
		return unlabelled(s.key)
	}
	over := s.of(b, scope)
	if least := over.least(s.minDomains); over.pods[value]+more-least > s.maxSkew {
		return skewed(s, over.pods[value], least)
	}
	if s.affinity && s.exceededOn(n, more) {
		return skewed(s, s.pods[n], 0)
	}
	return ""
}

// exceededOn reports whether additional pods that are pinned to a host would exceed maxSkew if this host is the only counted domain.
func (s *spread) exceededOn(n topology.NodeID, more int) bool {
	return s.minDomains > 1 && s.pods[n]+more > s.maxSkew
}

// Mark implements topology.Binding. For rules over hosts, each host has its own label value, so hosts with equal counts are alike.
func (b *binding) Mark(n topology.NodeID) uint64 {
	of := b.cluster.LabelsOf(n)
	mark := uint64(0)
	add := func(key string, counts ...int) {
		value, has := of[key]
		if key == corev1.LabelHostname && has {
			value = ""
			for _, count := range counts {
				value += strconv.Itoa(count) + ","
			}
		}
		mark += topology.HashOf(key, value, strconv.FormatBool(has)) // in any order
	}
	for _, r := range b.repellings {
		add(r.key, r.matching[of[r.key]], r.owners[of[r.key]])
	}
	for _, g := range b.groups {
		for i := range g.terms {
			add(g.terms[i].key, g.counts[i][of[g.terms[i].key]])
		}
	}
	for _, s := range b.spreads {
		add(s.key, s.pods[n])
	}
	return mark
}
