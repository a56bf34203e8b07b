// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package affinity

import (
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// rule contains the restrictions of a class that no further pod of a plan can change.
type rule struct {
	key      string
	together bool
	// needs lists labels that the node must have.
	needs []string
	// barred contains, by label key, the values on nodes that exclude the pods. only contains, for some label keys, all values that the
	// pods accept.
	barred []valueRule
	only   []valueRule
}

// valueRule contains the affected values of a label, each with the reason.
type valueRule struct {
	key    string
	values map[string]string
}

// ruleOf creates the rule of a class.
func (b *binding) ruleOf(c *class, signature string) *rule {
	r := &rule{together: b.together(c)}
	for _, s := range c.spreads {
		r.needs = append(r.needs, s.key)
	}
	if g := c.affinity; g != nil {
		for i := range g.terms {
			r.needs = append(r.needs, g.terms[i].key)
		}
		if b.settled(c) {
			for i := range g.terms {
				r.only = append(r.only, valueRule{g.terms[i].key, reasons(g.counts[i], func(string) string { return "" })})
			}
		}
	}
	for _, one := range c.repels {
		r.bar(one.key, one.matching, one.repelsWhom)
	}
	for _, one := range c.matched {
		r.bar(one.key, one.owners, one.repelledBy)
	}
	r.key = r.text(signature)
	return r
}

// settled reports whether the affinity of a class is final: no other pod of the plan can match the affinity in a place where no pod matches
// it yet.
func (b *binding) settled(c *class) bool {
	g := c.affinity
	return len(g.by) == 0 || g.pairs > 0 && len(g.by) == 1 && g.by[c]
}

// together reports whether the class's rules depend on other pods of the plan.
func (b *binding) together(c *class) bool {
	return len(c.spreads) > 0 || len(c.spread) > 0 || len(c.groups) > 0 || c.affinity != nil && !b.settled(c) ||
		slices.ContainsFunc(c.repels, func(r *repelling) bool { return r.byClass }) ||
		slices.ContainsFunc(c.matched, func(r *repelling) bool { return r.ofClass })
}

func (r *rule) bar(key string, counts tally, why func(value string) string) {
	if len(counts) > 0 {
		r.barred = append(r.barred, valueRule{key, reasons(counts, why)})
	}
}

func reasons(counts tally, why func(value string) string) map[string]string {
	out := make(map[string]string, len(counts))
	for value := range counts {
		out[value] = why(value)
	}
	return out
}

// repelsWhom names a pod that the term keeps away from pods of the plan. repelledBy names a pod whose term keeps pods of the plan away. For
// terms over hosts, the two functions omit the name, so that messages can count the hosts.
func (r *repelling) repelsWhom(value string) string {
	return r.named("pod anti-affinity over "+r.key, " with ", r.matched[value])
}

func (r *repelling) repelledBy(value string) string {
	return r.named("pod anti-affinity over "+r.key, " of ", r.ownedBy[value])
}

func (r *repelling) named(text, joint, name string) string {
	if name == "" || r.key == corev1.LabelHostname {
		return text
	}
	return text + joint + name
}

// unlabelled, unmet and skewed return reasons other than anti-affinity that keep pods off a node.
func unlabelled(key string) string { return "no label " + key }

func unmet(key string) string { return "pod affinity unmet over " + key }

func skewed(s *spread, pods, least int) string {
	return fmt.Sprintf("topology spread over %s: %d pods, least %d, maxSkew %d", s.key, pods, least, s.maxSkew)
}

// text returns a text that is equal for rules that keep pods of the same class off the same nodes for the same reasons.
func (r *rule) text(signature string) string {
	h := topology.HashOf(signature, strconv.FormatBool(r.together))
	list := func(of []valueRule) {
		for _, one := range of {
			h = h*31 + topology.HashOf(one.key)
			for _, value := range sortedKeys(one.values) {
				h = h*31 + topology.HashOf(value, one.values[value])
			}
			h = h*31 + 1
		}
		h = h*31 + 2
	}
	list(r.barred)
	list(r.only)
	return "affinity " + strconv.FormatUint(h, 16)
}

// Key implements topology.Rule.
func (r *rule) Key() string { return r.key }

// Together implements topology.Rule.
func (r *rule) Together() bool { return r.together }

// Keeps implements topology.Rule.
func (r *rule) Keeps(_ string, labels map[string]string) string {
	for _, key := range r.needs {
		if _, has := labels[key]; !has {
			return unlabelled(key)
		}
	}
	for i := range r.barred {
		if value, has := labels[r.barred[i].key]; has {
			if why := r.barred[i].values[value]; why != "" {
				return why
			}
		}
	}
	for i := range r.only {
		if _, in := r.only[i].values[labels[r.only[i].key]]; !in {
			return unmet(r.only[i].key)
		}
	}
	return ""
}
