// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package maps

import "github.com/trellis-k8s/trellis/internal/cli/tree"

// Of the pods that take none of the resource: two dots stand above one another.
const (
	maxDots  = 4
	dotStep  = 7
	dotSize  = 6
	maxLabel = 18
)

// barWidth is the width of a host's bar.
func (s scale) barWidth(d *tree.Domain) int {
	if d.Amount == nil {
		return 0
	}
	return int(min(max(d.Total, d.Used), widest)) * s.cell
}

// dotsOf are the pods of graphs on a host that take none of the resource.
func dotsOf(d *tree.Domain) []*tree.Pod {
	var list []*tree.Pod
	for _, p := range podsOn(d) {
		if p.Amount == 0 {
			list = append(list, p)
		}
	}
	return list
}

func podsOn(d *tree.Domain) []*tree.Pod {
	list := make([]*tree.Pod, 0, len(d.Pods)+len(d.Foreign))
	for _, pods := range [][]tree.Pod{d.Pods, d.Foreign} {
		for i := range pods {
			list = append(list, &pods[i])
		}
	}
	return list
}

// hosts calls f for every node below a domain.
func hosts(d *tree.Domain, f func(*tree.Domain)) {
	if d.Node {
		f(d)
	}
	for _, child := range d.Children {
		hosts(child, f)
	}
}
