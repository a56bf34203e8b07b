// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package maps

import (
	"fmt"
	"strings"

	"github.com/trellis-k8s/trellis/internal/cli/text"
	"github.com/trellis-k8s/trellis/internal/cli/tree"
)

// Sums counts the hosts of one tree and the amounts of the resource on these hosts. Total is the sum of Free, Used and Closed. Overbooked
// is not part of Total.
type Sums struct {
	Hosts int   `json:"hosts"`
	Total int64 `json:"total"`
	Free  int64 `json:"free"`
	// Used is the part of Total that pods use. Planned is the part of Used that planned pods use.
	Used    int64 `json:"used"`
	Planned int64 `json:"planned,omitempty"`
	// Closed is the unused amount on hosts that take no pods.
	Closed int64 `json:"closed,omitempty"`
	// Overbooked is the amount that pods use beyond the capacity of their hosts.
	Overbooked int64 `json:"overbooked,omitempty"`
	// Text is the heading of the map.
	Text string `json:"text"`
}

// sums computes the sums of a tree.
func (m *Map) sums(t *tree.Tree) Sums {
	var s Sums
	hosts(t.Cluster, func(d *tree.Domain) {
		s.Hosts++
		if d.Amount == nil {
			return
		}
		over := overbooked(d)
		s.Total, s.Free, s.Used, s.Overbooked = s.Total+d.Total, s.Free+d.Free, s.Used+d.Used-over, s.Overbooked+over
		s.Closed += d.Total - (d.Used - over) - d.Free
		for _, p := range podsOn(d) {
			if p.State == StatePlanned {
				s.Planned += p.Amount
			}
		}
	})
	s.Text = m.header(&s)
	return s
}

// header describes the sums, and how much of a plan fits.
func (m *Map) header(s *Sums) string {
	parts := []string{text.Count(s.Hosts, "host")}
	if m.Resource != "" {
		used := fmt.Sprintf("%d used", s.Used)
		if s.Planned > 0 {
			used += fmt.Sprintf(" (%d of them planned)", s.Planned)
		}
		parts = append(parts, fmt.Sprintf("%d of %d %s free", s.Free, s.Total, m.unit()), used)
	}
	if s.Closed > 0 {
		parts = append(parts, fmt.Sprintf("%d on hosts that take no pods", s.Closed))
	}
	if s.Overbooked > 0 {
		parts = append(parts, fmt.Sprintf("and %d over-booked", s.Overbooked))
	}
	return strings.Join(append(parts, m.verdict()...), " \u00b7 ")
}

// verdict describes whether the plan fits. It reports that the plan fits only if the whole plan is placed and no other deployment waits.
func (m *Map) verdict() []string {
	fit := 0
	planned := map[string]bool{}
	for _, p := range m.Planned {
		planned[p.Namespace+"/"+p.Name] = true
		if p.Placed == p.Replicas {
			fit++
		}
	}
	others := map[string]bool{}
	for i := range m.Waiting {
		if key := m.Waiting[i].Namespace + "/" + m.Waiting[i].Graph; !planned[key] {
			others[key] = true
		}
	}
	switch {
	case len(m.Planned) == 0:
		return nil
	case fit < len(m.Planned):
		return []string{fmt.Sprintf("%d of %s of the plan fit", fit, text.Count(len(m.Planned), "deployment"))}
	case len(others) > 0:
		return []string{fmt.Sprintf("all of the plan is placed, %s still waiting", text.Count(len(others), "other deployment"))}
	}
	return []string{"the plan fits"}
}
