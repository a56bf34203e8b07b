// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package affinity

import (
	"math"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// tally counts pods by the value of a topology key.
type tally map[string]int

func (t tally) add(value string, k int) {
	if t[value] += k; t[value] == 0 {
		delete(t, value)
	}
}

// group is a pod's affinity with all its terms. The terms form a group, because the affinity counts only pods that match all terms.
type group struct {
	terms []term
	// counts has, for each term, the number of matching pods by the value of the term's key. pairs is the total of all these numbers.
	counts []tally
	pairs  int
	// by contains the plan's classes whose pods match the affinity.
	by map[*class]bool
}

func (g *group) matches(pod *corev1.Pod, namespace map[string]string) bool {
	for i := range g.terms {
		if !g.terms[i].matches(pod, namespace) {
			return false
		}
	}
	return true
}

func (g *group) put(labels map[string]string, k int) {
	for i := range g.terms {
		if value, has := labels[g.terms[i].key]; has {
			g.counts[i].add(value, k)
			g.pairs += k
		}
	}
}

// repelling is one anti-affinity term of pods of the plan or of running pods.
type repelling struct {
	term
	// own: some pod of the plan has the term. matching counts the pods that the term matches, and owners counts the pods that have the
	// term. Both count by the value of the key.
	own              bool
	matching, owners tally
	// matched has the first matching pod by name, and ownedBy has the first owner by name, for each value of the key.
	matched, ownedBy map[string]string
	// byClass: pods of the plan match the term; ofClass: pods of the plan have the term.
	byClass, ofClass bool
}

func (r *repelling) put(labels map[string]string, matches, owns bool, k int) {
	value, has := labels[r.key]
	if !has {
		return
	}
	if matches {
		r.matching.add(value, k)
	}
	if owns {
		r.owners.add(value, k)
	}
}

// spread is one spread constraint of a pod, with its counts of pods by node.
type spread struct {
	key                 string
	namespace           string
	selector            labels.Selector
	maxSkew, minDomains int
	affinity, taints    bool
	// countsAll is [Binder.CountsAll].
	countsAll bool
	// keys are the topology keys of all constraints of the pod. A node that lacks one of these keys is not counted.
	keys []string
	// shape is the shape of the pods. Its selector, affinity and tolerations determine which nodes are counted.
	shape *topology.Shape
	// pods are the matching pods, by node.
	pods map[topology.NodeID]int
	// over caches, by domain, the counts over the nodes of this domain.
	over map[topology.DomainID]*domains
	// by contains the plan's classes whose pods match the constraint.
	by map[*class]bool
}

func (s *spread) matches(pod *corev1.Pod) bool {
	return pod.Namespace == s.namespace && pod.DeletionTimestamp == nil && (s.countsAll || !s.selector.Empty()) &&
		s.selector.Matches(labels.Set(pod.Labels))
}

// selects reports whether the constraint counts a new pod of a class when this pod is checked. An empty selector always counts the new pod.
func (s *spread) selects(c *class) bool { return s.selector.Empty() && !nothing(s.selector) || s.by[c] }

// counts reports whether the constraint counts the pods of a node, regardless of the domain that must hold the new pod.
func (s *spread) counts(c *topology.Cluster, n topology.NodeID) bool {
	of := c.LabelsOf(n)
	for _, key := range s.keys {
		if _, has := of[key]; !has {
			return false
		}
	}
	return (!s.affinity || c.Selects(s.shape, n)) && (!s.taints || c.Tolerates(s.shape, n))
}

func (s *spread) put(b *binding, n topology.NodeID, k int) {
	s.pods[n] += k
	if len(s.over) == 0 || !s.counts(b.cluster, n) {
		return
	}
	value := b.cluster.LabelsOf(n)[s.key]
	for d := b.tree.Home(n); d != topology.Nowhere; d = b.tree.Parent(d) {
		if over := s.over[d]; over != nil {
			over.add(value, k)
		}
	}
	if over := s.over[topology.Nowhere]; over != nil {
		over.add(value, k)
	}
}

// of returns the constraint's counts over the nodes of a domain.
func (s *spread) of(b *binding, scope topology.DomainID) *domains {
	if !s.affinity {
		scope = topology.Nowhere // pins do not restrict the counted nodes
	}
	if d := s.over[scope]; d != nil {
		return d
	}
	d := &domains{pods: map[string]int{}, byPods: map[int]int{}, min: math.MaxInt32}
	add := func(n topology.NodeID) bool {
		b.cluster.Spend(1)
		if s.counts(b.cluster, n) {
			d.add(b.cluster.LabelsOf(n)[s.key], s.pods[n])
		}
		return true
	}
	if scope == topology.Nowhere {
		b.cluster.EachNode(func(n topology.NodeID) { add(n) })
	} else {
		b.tree.AllNodes(scope, add)
	}
	s.over[scope] = d
	return d
}

// domains contains the values of a topology key on the counted nodes, the number of pods for each value, and the minimum of these numbers.
type domains struct {
	pods   map[string]int
	byPods map[int]int
	min    int
}

func (d *domains) add(value string, k int) {
	old, known := d.pods[value]
	if known {
		d.byPods[old]--
	}
	d.pods[value] = old + k
	d.byPods[old+k]++
	if d.min = min(d.min, old+k); d.byPods[d.min] > 0 {
		return
	}
	d.min = math.MaxInt32
	for pods, values := range d.byPods {
		if values > 0 {
			d.min = min(d.min, pods)
		}
	}
}

// least returns the global minimum of the constraint: the fewest pods in any domain, or 0 if there are fewer domains than minDomains.
func (d *domains) least(minDomains int) int {
	if len(d.pods) < minDomains {
		return 0
	}
	return d.min
}
