// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package affinity

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/utils/ptr"

	"github.com/trellis-k8s/trellis/internal/topology"
)

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// groupOf returns the affinity of a pod; nil without one.
func groupOf(pod *corev1.Pod) *group {
	terms := affinityTerms(pod)
	if len(terms) == 0 {
		return nil
	}
	g := &group{by: map[*class]bool{}}
	for i := range terms {
		g.terms = append(g.terms, termOf(pod, &terms[i]))
		g.counts = append(g.counts, tally{})
	}
	return g
}

func (g *group) text() string {
	texts := make([]string, 0, len(g.terms))
	for i := range g.terms {
		texts = append(texts, g.terms[i].text)
	}
	return strings.Join(texts, "\x01")
}

// spreadsOf returns the DoNotSchedule spread constraints of a pod.
func spreadsOf(s *topology.Shape) (out []*spread) {
	pod := s.Pod()
	var keys []string
	for i := range pod.Spec.TopologySpreadConstraints {
		c := &pod.Spec.TopologySpreadConstraints[i]
		if c.WhenUnsatisfiable != corev1.DoNotSchedule {
			continue
		}
		keys = append(keys, c.TopologyKey)
		out = append(out, &spread{
			key: c.TopologyKey, namespace: pod.Namespace, maxSkew: int(c.MaxSkew), minDomains: int(ptr.Deref(c.MinDomains, 1)),
			selector: withKeys(selectorOf(c.LabelSelector), pod.Labels, c.MatchLabelKeys, selection.In),
			affinity: ptr.Deref(c.NodeAffinityPolicy, corev1.NodeInclusionPolicyHonor) == corev1.NodeInclusionPolicyHonor,
			taints:   ptr.Deref(c.NodeTaintsPolicy, corev1.NodeInclusionPolicyIgnore) == corev1.NodeInclusionPolicyHonor,
			shape:    s, pods: map[topology.NodeID]int{}, over: map[topology.DomainID]*domains{}, by: map[*class]bool{},
		})
	}
	for _, one := range out {
		one.keys = keys
	}
	return out
}

// text returns a text that is equal for constraints that count the same pods on the same nodes.
func (s *spread) text() string {
	pod := s.shape.Pod()
	nodes, err := json.Marshal([]any{pod.Spec.NodeSelector, pod.Spec.Affinity, pod.Spec.Tolerations})
	if err != nil {
		nodes = []byte(err.Error())
	}
	return strings.Join([]string{
		s.key, s.namespace, textOf(s.selector), strconv.Itoa(s.maxSkew), strconv.Itoa(s.minDomains), strconv.FormatBool(s.affinity),
		strconv.FormatBool(s.taints), strings.Join(s.keys, ","), string(nodes),
	}, "\x00")
}

// classify sorts the pods of the plan into classes. It creates a rule for each class for which binds returns true.
func (b *binding) classify(shapes []*topology.Shape) {
	for _, s := range shapes {
		if s.Pod() != nil && b.ofShape[s] == nil {
			b.ofShape[s] = b.classFor(s)
		}
	}
	for _, class := range b.bySignature {
		for _, g := range class.groups {
			g.by[class] = true
		}
		for _, s := range class.spread {
			s.by[class] = true
		}
		for _, r := range class.matched {
			r.byClass = true
		}
		for _, r := range class.owned {
			r.ofClass = true
		}
	}
	for _, signature := range sortedKeys(b.bySignature) {
		if class := b.bySignature[signature]; b.binds(class) {
			class.rule = b.ruleOf(class, signature)
			b.ofRule[class.rule] = class
		}
	}
}

func (b *binding) classFor(s *topology.Shape) *class {
	pod := s.Pod()
	out := &class{effect: b.effectOf(pod)}
	var parts []string
	if g := groupOf(pod); g != nil {
		out.affinity = b.groups[g.text()]
		parts = append(parts, "affinity "+g.text())
	}
	for _, one := range spreadsOf(s) {
		out.spreads = append(out.spreads, b.spreads[one.text()])
		parts = append(parts, "spread "+one.text())
	}
	out.repels = out.owned
	for text, r := range b.repellings {
		if slices.Contains(out.matched, r) {
			parts = append(parts, "matched "+text)
		}
		if slices.Contains(out.owned, r) {
			parts = append(parts, "owned "+text)
		}
	}
	for text, g := range b.groups {
		if slices.Contains(out.groups, g) {
			parts = append(parts, "of "+text)
		}
	}
	for text, one := range b.spreads {
		if slices.Contains(out.spread, one) {
			parts = append(parts, "counts "+text)
		}
	}
	slices.Sort(parts)
	signature := strings.Join(parts, "\x02")
	if b.bySignature[signature] == nil {
		b.bySignature[signature] = out
	}
	return b.bySignature[signature]
}

// binds reports whether any rule concerns pods of a class. A rule concerns pods if it counts them, or keeps them off some node now or after
// other pods of the plan are placed.
func (b *binding) binds(c *class) bool {
	return c.affinity != nil || len(c.spreads) > 0 || len(c.groups) > 0 || len(c.spread) > 0 ||
		slices.ContainsFunc(c.repels, func(r *repelling) bool { return len(r.matching) > 0 || r.byClass }) ||
		slices.ContainsFunc(c.matched, func(r *repelling) bool { return len(r.owners) > 0 || r.ofClass })
}

// noteMatching records the first matching pod by name, for messages.
func (r *repelling) noteMatching(of map[string]string, pod *corev1.Pod) {
	noteFirst(r.matched, of[r.key], pod)
}

func (r *repelling) noteOwner(of map[string]string, pod *corev1.Pod) {
	noteFirst(r.ownedBy, of[r.key], pod)
}

func noteFirst(names map[string]string, value string, pod *corev1.Pod) {
	name := pod.Namespace + "/" + pod.Name
	if old := names[value]; value != "" && (old == "" || cmp.Less(name, old)) {
		names[value] = name
	}
}
