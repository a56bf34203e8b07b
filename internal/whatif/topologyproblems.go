// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package whatif

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/hierarchy"
)

// problem is a problem with a level of a topology, found on the world's nodes.
type problem struct{ level, text string }

// MisplacedBy describes the problems with the levels that a deployment uses, one sentence each: the level order is wrong, or a level is
// missing, so that distinct locations form one domain. It returns nil for an invalid deployment.
func (p *Planner) MisplacedBy(dgd *nvidiav1beta1.DynamoGraphDeployment) []string {
	if len(p.Check(dgd)) > 0 {
		return nil
	}
	r, err := p.request(dgd)
	if err != nil {
		return nil
	}
	var out []string
	for _, sg := range r.observation.Groups {
		t := sg.Spec.Topology
		if t == nil {
			continue
		}
		for _, one := range p.problemsOf(t.ClusterTopology) {
			if slices.Contains(levelsUsed(t), one.level) && !slices.Contains(out, one.text) {
				out = append(out, one.text)
			}
		}
	}
	return out
}

// levelsUsed returns the levels by which pods are packed, spread or paired.
func levelsUsed(t *trellisv1alpha1.ResolvedTopology) []string {
	return []string{t.GraphPackDomain, t.GraphPreferredPackDomain, t.PackDomain, t.PreferredPackDomain, t.SpreadDomain, t.KVTransferDomain}
}

// problemsOf returns the problems with a topology's levels. It evaluates the labels of all nodes once per topology.
func (p *Planner) problemsOf(name string) []problem {
	if list, known := p.problems[name]; known {
		return list
	}
	var list []problem
	if ct := p.world.Topology(name); ct != nil {
		list = problems(ct, p.world.Nodes)
	}
	if p.problems == nil {
		p.problems = map[string][]problem{}
	}
	p.problems[name] = list
	return list
}

func problems(ct *grovev1alpha1.ClusterTopology, nodes []*corev1.Node) (list []problem) {
	selector := labels.SelectorFromSet(ct.Spec.NodeSelector)
	var of []map[string]string
	for _, node := range nodes {
		if selector.Matches(labels.Set(node.Labels)) {
			of = append(of, node.Labels)
		}
	}
	levels := gang.LevelsOfClusterTopology(ct)
	for _, o := range hierarchy.FindOmitted(of, levels) {
		list = append(list, problem{o.Below.Domain, ct.Source() + " " + ct.Name + ": " + o.String()})
	}
	for _, r := range hierarchy.FindReversed(of, levels) {
		text := ct.Source() + " " + ct.Name + ": " + r.String()
		list = append(list, problem{r.Above.Domain, text}, problem{r.Below.Domain, text})
	}
	return list
}
