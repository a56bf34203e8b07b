// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"github.com/trellis-k8s/trellis/internal/topology"
)

// enough reports whether a domain has free capacity for the unit's total requests, resource by resource, on hosts that take any of the
// unit's pods. It detects shortages that counting each shape alone misses, so the search need not prove them pod by pod.
func (s *search) enough(u *unit, d topology.DomainID) bool {
	if len(u.total) < 2 {
		return true
	}
	s.steps -= s.tree.Size(d) / 16
	need, grain := map[string]int64{}, map[string]int64{}
	for _, c := range u.total {
		for _, r := range c.view.Shape().Requests() {
			need[r.Name] += r.Amount * int64(c.pods)
			grain[r.Name] = gcd(grain[r.Name], r.Amount)
		}
	}
	s.tree.AllNodes(d, func(n topology.NodeID) bool {
		free := map[string]int64{}
		for _, c := range u.total {
			if c.view.NodeFit(n) == 0 {
				continue
			}
			for i, r := range c.view.Shape().Requests() {
				left, counts := c.view.Left(n, i)
				if free[r.Name] = max(left, 0); !counts {
					free[r.Name] = need[r.Name]
				}
			}
		}
		for name, left := range free {
			need[name] -= left / grain[name] * grain[name]
		}
		return true
	})
	for _, left := range need {
		if left > 0 {
			return false
		}
	}
	return true
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
