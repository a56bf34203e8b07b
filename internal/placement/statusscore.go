// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// Unscored is the score when no replica has a node.
const Unscored = -1

// Score describes how tightly replicas are packed, in [0,1]. It is the minimum over all replicas, as v1beta1 defines
// status.placement.score. Each replica is given by the nodes of its pods; replicas without nodes are ignored. If no replica has nodes, the
// score is [Unscored].
//
// A replica scores 1 when its nodes share one domain at every level. A level at which its nodes are in k domains contributes 1/k; a node
// without the label of a level counts as a domain. The score is the average over the levels, without the hostname level, because pods that
// each fill a host cannot share a host.
func Score(c *topology.Cluster, levels topology.Levels, replicas [][]string) float64 {
	least := float64(Unscored)
	for _, nodes := range replicas {
		if len(nodes) == 0 {
			continue
		}
		if one := tightness(c, levels, nodes); least == Unscored || one < least {
			least = one
		}
	}
	return least
}

func tightness(c *topology.Cluster, levels topology.Levels, nodes []string) float64 {
	sum, counted := 0.0, 0
	for i, level := range levels {
		if level.Key != corev1.LabelHostname {
			sum += 1 / float64(domainsOf(c, levels[:i+1], nodes))
			counted++
		}
	}
	if counted == 0 {
		return 1
	}
	return sum / float64(counted)
}

// domainsOf counts the domains of the last level that contain the nodes.
func domainsOf(c *topology.Cluster, levels topology.Levels, nodes []string) int {
	var seen []map[string]string // the labels of one node of each domain
	var loose []string
	for _, node := range nodes {
		labels := c.NodeLabels(node)
		known := func(of map[string]string) bool { return levels.Share(of, labels) }
		switch n := len(seen); {
		case !levels.In(labels):
			if !slices.Contains(loose, node) {
				loose = append(loose, node)
			}
		case n > 0 && known(seen[n-1]): // successive pods are often in the same domain
		case !slices.ContainsFunc(seen, known):
			seen = append(seen, labels)
		}
	}
	return len(seen) + len(loose)
}

// score returns the score of the placed replicas. A replica whose domain is of the narrowest level scores 1, so its nodes are not read.
func (p *planner) score(replicas []ReplicaResult) float64 {
	levels, score := p.tree.Levels(), float64(Unscored)
	if n := len(levels); n > 0 && levels[n-1].Key == corev1.LabelHostname {
		levels = levels[:n-1] // the hostname level does not count
	}
	for _, r := range replicas {
		if r.Refusal != nil || len(r.Pods) == 0 {
			continue
		}
		one := 1.0
		if len(r.Domain) < len(levels) {
			nodes := make([]string, len(r.Pods))
			for i := range r.Pods {
				nodes[i] = r.Pods[i].Node
			}
			one = Score(p.cluster, levels, [][]string{nodes})
		}
		if score == Unscored || one < score {
			score = one
		}
	}
	return score
}
