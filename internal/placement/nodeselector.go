// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// noteLeftOut records in a refusal that the pods suit nodes of the cluster, but none of the nodes that match the topology's node selector.
// An example is a frontend for the CPU pool in a graph that is packed by a topology of the GPU pool.
func (s *search) noteLeftOut(r *Refusal, u *unit) {
	selector := s.tree.NodeSelector()
	if len(selector) == 0 {
		return
	}
	for i := range u.total {
		if view := u.total[i].view; view.Suiting(topology.Root) == 0 {
			if r.LeftOut = s.cluster.Tree(nil, nil).View(view.Shape()).Suiting(topology.Root); r.LeftOut > 0 {
				r.NodeSelector = selector
				return
			}
		}
	}
}

// leftOutText names the node selector, the nodes that it excludes, and the fix.
func (r *Refusal) leftOutText() string {
	if r.LeftOut == 0 {
		return ""
	}
	var labels []string
	for _, key := range slices.Sorted(maps.Keys(r.NodeSelector)) {
		labels = append(labels, key+"="+r.NodeSelector[key])
	}
	nodes := plural(r.LeftOut, "node") + " that suit"
	if r.LeftOut == 1 {
		nodes = "the node that suits"
	}
	return fmt.Sprintf("nodeSelector %s of the topology excludes %s such pods: use a topology without it",
		name(strings.Join(labels, ",")), nodes)
}

// innermost returns the refusal of the innermost part that does not fit.
func (r *Refusal) innermost() *Refusal {
	for r.Cause != nil {
		r = r.Cause
	}
	return r
}
