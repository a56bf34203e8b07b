// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package affinity_test

import (
	"flag"
	"os"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/trellis-k8s/trellis/test/testutil/smallworld"
)

// TestMain keeps property runs short; TRELLIS_CHECKS=5000 go test runs more.
func TestMain(m *testing.M) {
	flag.Parse()
	if f := flag.Lookup("rapid.checks"); f != nil && f.Value.String() == f.DefValue {
		checks := os.Getenv("TRELLIS_CHECKS")
		if checks == "" {
			checks = "300"
		}
		if err := f.Value.Set(checks); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// TestByTheRules compares the planner with filters that are written down as Kubernetes documents the rules, and share no code with it. hack/filters does
// the same with the kube-scheduler's own.
func TestByTheRules(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := smallworld.Draw(rt)
		w.Check(rt, newFilters(&w))
	})
}

// filters let a pod onto a node by reading all pods and nodes again.
type filters struct {
	nodes []*corev1.Node
	teams map[string]map[string]string
	pods  []*corev1.Pod
}

func newFilters(w *smallworld.World) *filters {
	f := &filters{nodes: w.Nodes, teams: map[string]map[string]string{}}
	for _, o := range w.Objects() {
		if ns, is := o.(*corev1.Namespace); is {
			f.teams[ns.Name] = ns.Labels
		}
	}
	return f
}

func (f *filters) Set(pods []*corev1.Pod) { f.pods = pods }

func (f *filters) node(name string) *corev1.Node {
	return f.nodes[slices.IndexFunc(f.nodes, func(n *corev1.Node) bool { return n.Name == name })]
}

func (f *filters) Lets(p *corev1.Pod, name string) bool {
	n := f.node(name)
	return f.suits(p, n) && f.fits(p, n) && f.meetsAffinity(p, n) && f.keepsAway(p, n) && f.isSpread(p, n)
}

func (f *filters) suits(p *corev1.Pod, n *corev1.Node) bool { return selects(p, n) && tolerates(p, n) }

func selects(p *corev1.Pod, n *corev1.Node) bool {
	match, err := nodeaffinity.GetRequiredNodeAffinity(p).Match(n)
	return err == nil && match
}

func tolerates(p *corev1.Pod, n *corev1.Node) bool {
	_, untolerated := corev1helpers.FindMatchingUntoleratedTaint(klog.Logger{}, n.Spec.Taints, p.Spec.Tolerations,
		func(t *corev1.Taint) bool { return t.Effect != corev1.TaintEffectPreferNoSchedule }, false)
	return !untolerated
}

func (f *filters) fits(p *corev1.Pod, n *corev1.Node) bool {
	used := p.Spec.Containers[0].Resources.Requests[gpu]
	slots := int64(1)
	for _, other := range f.pods {
		if other.Spec.NodeName == n.Name {
			used.Add(other.Spec.Containers[0].Resources.Requests[gpu])
			slots++
		}
	}
	return used.Cmp(n.Status.Allocatable[gpu]) <= 0 && slots <= n.Status.Allocatable.Pods().Value()
}

// about reports whether a term of one pod is about another one.
func (f *filters) about(owner *corev1.Pod, t *corev1.PodAffinityTerm, other *corev1.Pod) bool {
	in := slices.Contains(t.Namespaces, other.Namespace)
	if len(t.Namespaces) == 0 && t.NamespaceSelector == nil {
		in = owner.Namespace == other.Namespace
	}
	return (in || matches(t.NamespaceSelector, f.teams[other.Namespace])) && matches(t.LabelSelector, other.Labels)
}

func matches(s *metav1.LabelSelector, of map[string]string) bool {
	selector, err := metav1.LabelSelectorAsSelector(s)
	return err == nil && selector.Matches(labels.Set(of))
}

// together reports whether two nodes are one by a key.
func together(a, b *corev1.Node, key string) bool {
	x, has := a.Labels[key]
	y, also := b.Labels[key]
	return has && also && x == y
}

// meetsAffinity: for each term, some pod that all terms are about is in the node's domain; or no such pod is in any domain, and the pod is one itself.
func (f *filters) meetsAffinity(p *corev1.Pod, n *corev1.Node) bool {
	if p.Spec.Affinity == nil || p.Spec.Affinity.PodAffinity == nil {
		return true
	}
	terms := p.Spec.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	aboutAll := func(other *corev1.Pod) bool {
		return !slices.ContainsFunc(terms, func(t corev1.PodAffinityTerm) bool { return !f.about(p, &t, other) })
	}
	met, some := true, false
	for i := range terms {
		here := false
		for _, other := range f.pods {
			if !aboutAll(other) {
				continue
			}
			at := f.node(other.Spec.NodeName)
			_, counts := at.Labels[terms[i].TopologyKey]
			some = some || counts
			here = here || together(n, at, terms[i].TopologyKey)
		}
		met = met && here
		if _, has := n.Labels[terms[i].TopologyKey]; !has {
			return false
		}
	}
	return met || !some && aboutAll(p)
}

func antiAffinity(p *corev1.Pod) []corev1.PodAffinityTerm {
	if p.Spec.Affinity == nil || p.Spec.Affinity.PodAntiAffinity == nil {
		return nil
	}
	return p.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
}

// keepsAway: no pod that the pod's terms are about is in the node's domain, and none whose terms are about the pod.
func (f *filters) keepsAway(p *corev1.Pod, n *corev1.Node) bool {
	for _, other := range f.pods {
		at := f.node(other.Spec.NodeName)
		for _, t := range antiAffinity(p) {
			if f.about(p, &t, other) && together(n, at, t.TopologyKey) {
				return false
			}
		}
		for _, t := range antiAffinity(other) {
			if f.about(other, &t, p) && together(n, at, t.TopologyKey) {
				return false
			}
		}
	}
	return true
}

// isSpread: no constraint has more pods in the node's domain, with the pod, than maxSkew above the least of all domains that count.
func (f *filters) isSpread(p *corev1.Pod, n *corev1.Node) bool {
	constraints := p.Spec.TopologySpreadConstraints
	for i := range constraints {
		c := &constraints[i]
		pods := map[string]int{}
		for _, at := range f.nodes {
			if f.counts(p, c, at) {
				pods[at.Labels[c.TopologyKey]] += f.selected(p, c, at)
			}
		}
		value, has := n.Labels[c.TopologyKey]
		if !has {
			return false
		}
		least := -1
		for _, k := range pods {
			if least < 0 || k < least {
				least = k
			}
		}
		if len(pods) < int(ptr.Deref(c.MinDomains, 1)) {
			least = 0
		}
		itself := 0
		if chosen(p, c, p.Labels) {
			itself = 1
		}
		if least >= 0 && pods[value]+itself-least > int(c.MaxSkew) {
			return false
		}
	}
	return true
}

// counts reports whether the domain of a node counts for a constraint.
func (f *filters) counts(p *corev1.Pod, c *corev1.TopologySpreadConstraint, at *corev1.Node) bool {
	for i := range p.Spec.TopologySpreadConstraints {
		if _, has := at.Labels[p.Spec.TopologySpreadConstraints[i].TopologyKey]; !has {
			return false
		}
	}
	if ptr.Deref(c.NodeAffinityPolicy, corev1.NodeInclusionPolicyHonor) == corev1.NodeInclusionPolicyHonor && !selects(p, at) {
		return false
	}
	return ptr.Deref(c.NodeTaintsPolicy, corev1.NodeInclusionPolicyIgnore) != corev1.NodeInclusionPolicyHonor || tolerates(p, at)
}

// selected counts the pods on a node that a constraint is about. A selector that matches everything counts none of those that are there.
func (f *filters) selected(p *corev1.Pod, c *corev1.TopologySpreadConstraint, at *corev1.Node) (count int) {
	everything := c.LabelSelector != nil && len(c.LabelSelector.MatchLabels) == 0 && len(c.MatchLabelKeys) == 0
	for _, other := range f.pods {
		if other.Spec.NodeName == at.Name && other.Namespace == p.Namespace && !everything && chosen(p, c, other.Labels) {
			count++
		}
	}
	return count
}

// chosen reports whether a constraint of a pod is about pods with some labels.
func chosen(p *corev1.Pod, c *corev1.TopologySpreadConstraint, of map[string]string) bool {
	for _, key := range c.MatchLabelKeys {
		if p.Labels[key] != of[key] {
			return false
		}
	}
	return matches(c.LabelSelector, of)
}
