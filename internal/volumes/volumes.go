// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package volumes

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// Bind implements topology.Binder.
func (s *Store) Bind(c *topology.Cluster, _ *topology.Tree, shapes []*topology.Shape) topology.Binding {
	if !slices.ContainsFunc(shapes, hasVolumes) {
		return nil
	}
	b := &binding{
		store: s, cluster: c, byText: map[string]*class{}, ofShape: map[*topology.Shape]*class{}, ofRule: map[*rule]*class{},
		uses: map[types.NamespacedName]*use{}, attached: map[attachment]int{}, perNode: map[slot]int{},
	}
	for _, shape := range shapes {
		b.add(shape)
	}
	if len(b.ofRule) == 0 {
		return nil
	}
	c.EachPod(func(pod *corev1.Pod, n topology.NodeID) {
		if len(pod.Spec.Volumes) > 0 {
			c.Spend(1)
			b.PutPod(pod, n, 1)
		}
	})
	b.judge()
	if len(b.ofRule) == 0 {
		return nil
	}
	return b
}

func hasVolumes(s *topology.Shape) bool { return s.Pod() != nil && len(s.Pod().Spec.Volumes) > 0 }

// binding contains the claims of the pods of one plan, and counts the uses of these claims.
type binding struct {
	store   *Store
	cluster *topology.Cluster
	byText  map[string]*class
	ofShape map[*topology.Shape]*class
	ofRule  map[*rule]*class
	// uses contains the uses of the plan's claims. attached counts the pods that use each volume on each node. perNode counts each driver's
	// volumes on each node.
	uses     map[types.NamespacedName]*use
	attached map[attachment]int
	perNode  map[slot]int
}

// class is a set of pods of the plan with equivalent claims.
type class struct {
	claims []*claim
	rule   *rule
}

// use records the use of a claim.
type use struct {
	claim *claim
	// pods counts the pods that use the claim, by node. first is the first of these pods by name, for messages.
	pods  map[topology.NodeID]int
	total int
	first string
}

// add reads the claims of a pod of the plan.
func (b *binding) add(shape *topology.Shape) {
	pod := shape.Pod()
	if pod == nil || len(pod.Spec.Volumes) == 0 || b.ofShape[shape] != nil {
		return
	}
	claims := b.store.claimsOf(pod)
	if len(claims) == 0 {
		return
	}
	texts := make([]string, 0, len(claims))
	for _, c := range claims {
		c.spend = b.cluster.Spend
		texts = append(texts, c.text())
		if !c.own && b.uses[c.name] == nil {
			b.uses[c.name] = &use{claim: c, pods: map[topology.NodeID]int{}}
		}
	}
	slices.Sort(texts)
	text := strings.Join(texts, "\x00")
	if b.byText[text] == nil {
		b.byText[text] = &class{claims: claims, rule: &rule{key: text, claims: claims}}
		b.ofRule[b.byText[text].rule] = b.byText[text]
	}
	b.ofShape[shape] = b.byText[text]
}

// Rule implements topology.Binding.
func (b *binding) Rule(s *topology.Shape) topology.Rule {
	if class := b.ofShape[s]; class != nil && class.rule != nil {
		return class.rule
	}
	return nil
}

func (b *binding) classOf(s *topology.Shape) *class { return b.ofRule[topology.RuleOf[*rule](s)] }

// Put implements topology.Binding.
func (b *binding) Put(s *topology.Shape, n topology.NodeID, k int) {
	if class := b.classOf(s); class != nil {
		b.put(class.claims, n, k)
	}
}

// PutPod implements topology.Binding.
func (b *binding) PutPod(pod *corev1.Pod, n topology.NodeID, k int) {
	if len(pod.Spec.Volumes) == 0 {
		return
	}
	claims := b.store.claimsOf(pod)
	b.put(claims, n, k)
	name := pod.Namespace + "/" + pod.Name
	for _, c := range claims {
		if u := b.uses[c.name]; u != nil && (u.first == "" || cmp.Less(name, u.first)) {
			u.first = name
		}
	}
}

// put adds k to the counts of pods on a node that use the claims. k is negative if pods are removed.
func (b *binding) put(claims []*claim, n topology.NodeID, k int) {
	for i, c := range claims {
		if !c.own && slices.ContainsFunc(claims[:i], c.same) {
			continue
		}
		if u := b.uses[c.name]; u != nil {
			u.total += k
			if u.pods[n] += k; u.pods[n] == 0 {
				delete(u.pods, n)
			}
		}
		b.attach(c, n, k)
	}
}
