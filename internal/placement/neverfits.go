// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"
	"slices"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// Never explains why no domain could hold a gang on today's nodes, even if the nodes were empty and schedulable. It is set only if counts
// of pods and resources prove this. The counts ignore nodes that do not match the pods' selector or affinity. If no node matches, the gang
// gets another refusal.
type Never struct {
	// Requests are the requests of each pod, and Pods is the number of pods.
	Requests []topology.Request
	Pods     int
	// Level is the name of a level without any domain that could hold the pods. Empty: no host could hold even one pod.
	Level string
	// Resource is a resource of which no host has enough for one pod, or of which Domain does not have enough for all pods. Need is the
	// requested amount. Have is the largest amount on one host, or the amount in Domain. Resource is empty if each resource suffices
	// separately.
	Resource   string
	Need, Have int64
	// Domain is the domain that holds the most pods when empty, and Holds is the number of these pods. Together: each shape fits
	// separately, but not all shapes together.
	Domain   topology.Path
	Holds    int
	Together bool
	// OnePerHost: no host holds two of the pods. FewHosts: no domain has as many hosts as there are pods.
	OnePerHost, FewHosts bool
	// Unlabeled is set when hosts are excluded by labels or by the order of the levels, not by the number or size of the hosts. The code is
	// then [CodeNoDomain].
	Unlabeled *Unlabeled
}

// refused explains why a unit does not fit inside a domain, and whether it could ever fit.
func (s *search) refused(u *unit, at topology.DomainID) *Refusal {
	s.begin(u)
	r := s.refusal(u, at)
	if !r.short() && r.Code != CodeBudgetExhausted || r.Closest == nil {
		return r
	}
	if r.Never = s.never(u, r.Level); r.Never != nil {
		r.Code, r.Steps, r.Compared = CodeNeverFits, 0, 0
		if r.Never.Unlabeled != nil {
			r.Code = CodeNoDomain
		}
	}
	return r
}

// never explains why no domain of a level could hold a unit. It returns nil unless counts prove that no domain could hold the unit.
func (s *search) never(u *unit, level int) *Never {
	for _, c := range u.total {
		if c.view.Matching() == 0 {
			return nil // the refusal counts the hosts that do not match
		}
	}
	for _, c := range u.total {
		if c.view.HostWhenEmpty() > 0 {
			continue
		}
		n := &Never{Requests: c.view.Shape().Requests(), Pods: c.pods}
		if why, lacks := c.view.Lacking(); lacks {
			n.Resource, n.Need, n.Have = why.Detail, why.Need, why.Have
		}
		return n
	}
	domains := s.tree.Domains(level, topology.Root)
	if len(domains) == 0 || slices.ContainsFunc(domains, func(d topology.DomainID) bool { return s.couldHold(u, d) }) {
		return nil
	}
	return s.tooSmall(u, level, domains)
}

// couldHold reports whether an empty domain could hold a unit. It counts each shape, each resource and each sub-unit separately.
func (s *search) couldHold(u *unit, d topology.DomainID) bool {
	for _, c := range u.total {
		if c.view.WhenEmpty(d) < c.pods {
			return false
		}
	}
	if len(u.total) > 1 && !s.couldHoldTogether(u, d) {
		return false
	}
	return !slices.ContainsFunc(u.subs, func(sub *unit) bool {
		if sub.required <= s.tree.LevelOf(d) {
			return !s.couldHold(sub, d)
		}
		return !slices.ContainsFunc(s.tree.Domains(sub.required, d), func(in topology.DomainID) bool { return s.couldHold(sub, in) })
	})
}

// couldHoldTogether reports whether the allocatable resources of a domain suffice for the total requests of all shapes of a unit.
func (s *search) couldHoldTogether(u *unit, d topology.DomainID) bool {
	need := map[string]int64{}
	for _, c := range u.total {
		for _, r := range c.view.Shape().Requests() {
			need[r.Name] += r.Amount * int64(c.pods)
		}
	}
	for name, amount := range need {
		if has, counts := s.tree.Allocatable(d, name); counts && has < amount {
			return false
		}
	}
	return true
}

// tooSmall names the part of a unit that no domain of a level could hold: the pods of one shape, a sub-unit, or all pods together.
func (s *search) tooSmall(u *unit, level int, domains []topology.DomainID) *Never {
	hosts := 0
	for _, d := range domains {
		hosts = max(hosts, s.tree.Size(d))
	}
	for _, c := range u.total {
		best := slices.MaxFunc(domains, func(a, b topology.DomainID) int { return c.view.WhenEmpty(a) - c.view.WhenEmpty(b) })
		if holds := c.view.WhenEmpty(best); holds < c.pods {
			n := &Never{
				Requests: c.view.Shape().Requests(), Pods: c.pods, Level: s.tree.Levels().Name(level), Domain: s.tree.Path(best), Holds: holds,
				OnePerHost: c.view.HostWhenEmpty() == 1, FewHosts: hosts < c.pods,
			}
			for _, r := range n.Requests {
				if has, counts := s.tree.Allocatable(best, r.Name); counts && has < r.Amount*int64(c.pods) && n.Resource == "" {
					n.Resource, n.Need, n.Have = r.Name, r.Amount*int64(c.pods), has
				}
			}
			if level > topology.NoLevel && labelsHelp(c.view, domains, c.pods) || s.narrowerAbove(level) != "" {
				n.Unlabeled = s.unlabeled(level, c.view)
			}
			return n
		}
	}
	for _, sub := range u.subs {
		if sub.required > level {
			if len(s.tree.Domains(sub.required, topology.Root)) == 0 {
				return s.nowhere(sub.required)
			}
			if n := s.never(sub, sub.required); n != nil {
				return n
			}
		}
	}
	return &Never{Pods: u.size, Level: s.tree.Levels().Name(level), Together: true}
}

// WhyNever formats Never, e.g. "no rack has 6 hosts: the largest has 4 (zone-0/rack-0)"; "" if Never is nil.
func (r *Refusal) WhyNever() string {
	n := r.Never
	if n == nil {
		return ""
	}
	if n.Level == "" {
		return n.hostText()
	}
	if n.Unlabeled != nil {
		bare := *n
		bare.Unlabeled = nil
		where := ""
		if n.Unlabeled.Lack < n.Unlabeled.Hosts {
			where = (&Refusal{Never: &bare}).WhyNever()
		}
		return n.Unlabeled.text(where)
	}
	level, where := name(n.Level), " ("+pathText(n.Domain)+")"
	switch {
	case n.Together:
		return fmt.Sprintf("no %s holds these %d pods together, even when empty", level, n.Pods)
	case len(n.Domain) == 0:
		return fmt.Sprintf("the cluster holds %d of %s x %s, even when empty", n.Holds, plural(n.Pods, "pod"), requestsText(n.Requests))
	case n.OnePerHost && n.FewHosts:
		return fmt.Sprintf("no %s has %s: the largest has %d%s", level, plural(n.Pods, "host"), n.Holds, where)
	case n.OnePerHost:
		return fmt.Sprintf("no %s has %s of %s: the largest has %d%s", level, plural(n.Pods, "host"), allRequestsText(n.Requests), n.Holds, where)
	}
	if n.Resource != "" {
		where = fmt.Sprintf(" (%s: %s of %s %s)", pathText(n.Domain), amountText(n.Resource, n.Have), amountText(n.Resource, n.Need),
			name(n.Resource))
	}
	return fmt.Sprintf("no %s holds %s x %s, even when empty: the largest holds %d%s", level, plural(n.Pods, "pod"), requestsText(n.Requests),
		n.Holds, where)
}

// hostText returns for example "no host has 16 nvidia.com/gpu: the largest has 8".
func (n *Never) hostText() string {
	switch {
	case n.Resource == "":
		return fmt.Sprintf("no host has %s together", allRequestsText(n.Requests))
	case n.Have == 0:
		return fmt.Sprintf("no host has %s", name(n.Resource))
	}
	return fmt.Sprintf("no host has %s %s: the largest has %s", amountText(n.Resource, n.Need), name(n.Resource), amountText(n.Resource,
		n.Have))
}
