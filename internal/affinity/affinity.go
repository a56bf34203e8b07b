// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package affinity

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// Binder reads the affinity, anti-affinity and spread rules of pods. Namespaces maps the names of namespaces to their labels, for rules
// with a namespace selector. An unknown namespace has no labels.
type Binder struct {
	Namespaces map[string]map[string]string
	// CountsAll: a spread constraint with an empty selector counts all pods of its namespace. Otherwise it counts no existing pods. See
	// [kubescheduler.SpreadCountsAll].
	CountsAll bool

	memory
}

// Bind implements topology.Binder.
func (x *Binder) Bind(c *topology.Cluster, t *topology.Tree, shapes []*topology.Shape) topology.Binding {
	if !c.AnyRepelling(namespacesOf(shapes)) && !slices.ContainsFunc(shapes, hasRules) {
		return nil
	}
	b := &binding{
		Binder: x, cluster: c, tree: t, repellings: map[string]*repelling{}, groups: map[string]*group{}, spreads: map[string]*spread{},
		ofShape: map[*topology.Shape]*class{}, ofRule: map[*rule]*class{}, bySignature: map[string]*class{},
	}
	if b.read(shapes); len(b.groups)+len(b.spreads)+len(b.repellings) == 0 {
		return nil
	}
	b.count()
	if b.classify(shapes); len(b.ofRule) == 0 {
		return nil
	}
	return b
}

// hasRules reports whether pods of a shape have rules about other pods.
func hasRules(s *topology.Shape) bool {
	pod := s.Pod()
	return pod != nil && (pod.Spec.Affinity != nil || len(pod.Spec.TopologySpreadConstraints) > 0)
}

// binding holds the rules of one plan.
type binding struct {
	*Binder
	cluster *topology.Cluster
	tree    *topology.Tree
	// repellings, groups and spreads contain the anti-affinity terms, affinities and spread constraints, each by its text.
	repellings map[string]*repelling
	groups     map[string]*group
	spreads    map[string]*spread

	ofShape     map[*topology.Shape]*class
	ofRule      map[*rule]*class
	bySignature map[string]*class
}

// class is a set of the plan's pods that all rules treat alike.
type class struct {
	// affinity, repels and spreads are the pods' own rules; affinity may be nil.
	affinity *group
	repels   []*repelling
	spreads  []*spread
	effect
	// rule is nil if no rule concerns the pods; see binds.
	rule *rule
}

// effect contains the rules that the place of a pod affects: the rules that count the pod, and the pod's own anti-affinity rules.
type effect struct {
	groups []*group
	// matched are the anti-affinity rules that match the pod, and owned are the pod's own anti-affinity rules.
	matched, owned []*repelling
	spread         []*spread
}

// read collects the rules of the plan's pods, and the rules of running pods that match the plan's pods.
func (b *binding) read(shapes []*topology.Shape) {
	pods := distinct(shapes)
	for _, s := range pods {
		b.readOwn(s)
	}
	known := map[*repulsions][]*repelling{}
	b.cluster.EachRepelling(namespacesOf(shapes), func(pod *corev1.Pod, n topology.NodeID) {
		b.cluster.Spend(1)
		from := b.repulsionsOf(pod)
		rules, read := known[from]
		if !read {
			rules = b.about(from, pods)
			known[from] = rules
		}
		for _, r := range rules {
			r.put(b.cluster.LabelsOf(n), false, true, 1)
			r.noteOwner(b.cluster.LabelsOf(n), pod)
		}
	})
	b.forget()
}

// distinct returns one shape for each set of pods that have the same rules and the same identity.
func distinct(shapes []*topology.Shape) []*topology.Shape {
	var out []*topology.Shape
	seen := map[string]bool{}
	for _, s := range shapes {
		if pod := s.Pod(); pod != nil {
			if key := s.Key() + "|" + identity(pod); !seen[key] {
				seen[key] = true
				out = append(out, s)
			}
		}
	}
	return out
}

// identity returns the properties of a pod that selectors can match.
func identity(pod *corev1.Pod) string {
	var b strings.Builder
	b.WriteString(pod.Namespace)
	for _, key := range sortedKeys(pod.Labels) {
		b.WriteString("\x00" + key + "=" + pod.Labels[key])
	}
	return b.String()
}

// readOwn collects the own rules of a pod of the plan.
func (b *binding) readOwn(s *topology.Shape) {
	pod := s.Pod()
	for _, t := range repulsionsOf(pod) {
		b.repelling(t).own = true
	}
	if g := groupOf(pod); g != nil && b.groups[g.text()] == nil {
		b.groups[g.text()] = g
	}
	for _, one := range spreadsOf(s) {
		if b.spreads[one.text()] == nil {
			one.countsAll = b.CountsAll
			b.spreads[one.text()] = one
		}
	}
}

// repelling returns the rule of a term, creating it if necessary.
func (b *binding) repelling(t term) *repelling {
	r := b.repellings[t.text]
	if r == nil {
		r = &repelling{term: t, matching: tally{}, owners: tally{}, matched: map[string]string{}, ownedBy: map[string]string{}}
		b.repellings[t.text] = r
	}
	return r
}

// about returns the anti-affinity rules of a running pod that match pods of the plan, or that pods of the plan also have.
func (b *binding) about(from *repulsions, shapes []*topology.Shape) (rules []*repelling) {
	for i := range from.terms {
		t := &from.terms[i]
		b.cluster.Spend(len(shapes))
		known := b.repellings[t.text] != nil
		if known || slices.ContainsFunc(shapes, func(s *topology.Shape) bool { return b.isAbout(t, s.Pod()) }) {
			rules = append(rules, b.repelling(*t))
		}
	}
	return rules
}

// isAbout reports whether an anti-affinity term matches a pod, unless the node's one-per-host count already covers this pod.
func (b *binding) isAbout(t *term, pod *corev1.Pod) bool {
	return t.matches(pod, b.Namespaces[pod.Namespace]) && !carries(pod, t.perHost)
}

// count counts the cluster's pods that match rules of the plan's pods.
func (b *binding) count() {
	if len(b.groups)+len(b.spreads) == 0 && !slices.ContainsFunc(b.all(), func(r *repelling) bool { return r.own }) {
		return
	}
	b.cluster.EachPod(func(pod *corev1.Pod, n topology.NodeID) {
		b.cluster.Spend(1)
		e := b.seenBy(pod)
		b.put(&e, n, 1) // its own anti-affinity rules are counted already
		for _, r := range e.matched {
			r.noteMatching(b.cluster.LabelsOf(n), pod)
		}
	})
}

func (b *binding) all() []*repelling {
	out := make([]*repelling, 0, len(b.repellings))
	for _, text := range sortedKeys(b.repellings) {
		out = append(out, b.repellings[text])
	}
	return out
}

// effectOf returns the rules that count a pod, including the pod's own anti-affinity rules.
func (b *binding) effectOf(pod *corev1.Pod) effect {
	e := b.seenBy(pod)
	for _, t := range repulsionsOf(pod) {
		if r := b.repellings[t.text]; r != nil {
			e.owned = append(e.owned, r)
		}
	}
	return e
}

// seenBy returns the rules that match a pod.
func (b *binding) seenBy(pod *corev1.Pod) (e effect) {
	namespace := b.Namespaces[pod.Namespace]
	for _, g := range b.groups {
		if g.matches(pod, namespace) {
			e.groups = append(e.groups, g)
		}
	}
	for _, s := range b.spreads {
		if s.matches(pod) {
			e.spread = append(e.spread, s)
		}
	}
	for _, r := range b.repellings {
		if b.isAbout(&r.term, pod) {
			e.matched = append(e.matched, r)
		}
	}
	return e
}

// put adds k pods on a node to the counts of the rules in an effect.
func (b *binding) put(e *effect, n topology.NodeID, k int) {
	of := b.cluster.LabelsOf(n)
	for _, g := range e.groups {
		g.put(of, k)
	}
	for _, r := range e.matched {
		r.put(of, true, false, k)
	}
	for _, r := range e.owned {
		r.put(of, false, true, k)
	}
	for _, s := range e.spread {
		s.put(b, n, k)
	}
}

// Put implements topology.Binding.
func (b *binding) Put(s *topology.Shape, n topology.NodeID, k int) {
	if class := b.classOf(s); class != nil {
		b.put(&class.effect, n, k)
	}
}

// PutPod implements topology.Binding.
func (b *binding) PutPod(pod *corev1.Pod, n topology.NodeID, k int) {
	e := b.effectOf(pod)
	b.put(&e, n, k)
}

func (b *binding) classOf(s *topology.Shape) *class { return b.ofRule[topology.RuleOf[*rule](s)] }

// Rule implements topology.Binding.
func (b *binding) Rule(s *topology.Shape) topology.Rule {
	if class := b.ofShape[s]; class != nil && class.rule != nil {
		return class.rule
	}
	return nil
}
