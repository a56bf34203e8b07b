// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"strings"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// Domain is what one domain has for a refused gang: for its scarcest shape, and for the resource of that which is scarcest by nature, an
// extended one before cpu. Hosts is Open and the hosts of Excluded together.
type Domain struct {
	Path topology.Path
	// Holds pods of the gang fit, of all its shapes. For gangs of several shapes or parts it may be too high: they may not fit together.
	Holds int
	// Hosts of the domain, and those of them that take a pod now.
	Hosts, Open int
	// Free of Resource on all hosts that admit the pods, and of that on one host; Each is what one pod asks for. cpu is in thousandths.
	Resource            string
	Free, Largest, Each int64
	// Excluded counts the hosts that take no pod, per reason, most frequent first.
	Excluded []Excluded
}

// list fills in the domains that were compared, and those alongside the bound.
func (s *search) list(r *Refusal, u *unit, best topology.DomainID, domains []topology.DomainID, holds []int) {
	short := u.short(best)
	if short == nil {
		return
	}
	for i, d := range domains {
		r.Domains = append(r.Domains, s.count(short.view, d, holds[i]))
	}
	bound, found := s.tree.Find(r.Within)
	if !found || bound == topology.Root {
		return
	}
	for _, d := range s.tree.Domains(r.Level, topology.Root) {
		if !s.tree.Within(d, bound) {
			r.Outside = append(r.Outside, s.count(short.view, d, min(atMost(u, d), u.size)))
		}
	}
}

// count counts one domain for pods of one shape.
func (s *search) count(view *topology.View, d topology.DomainID, holds int) Domain {
	out := Domain{Path: s.tree.Path(d), Holds: holds}
	at := scarcest(view.Shape().Requests())
	if at >= 0 {
		out.Resource, out.Each = view.Shape().Requests()[at].Name, view.Shape().Requests()[at].Amount
	}
	var hosts exclusions
	s.tree.AllNodes(d, func(n topology.NodeID) bool {
		out.Hosts++
		why, excluded := view.Why(n)
		if excluded {
			hosts.add(why)
		} else {
			out.Open++
		}
		if at >= 0 && (!excluded || why.Kind == topology.KindResource) {
			left, _ := view.Left(n, at)
			out.Free, out.Largest = out.Free+max(left, 0), max(out.Largest, left)
		}
		return true
	})
	out.Excluded = hosts.sorted()
	return out
}

// scarcest is the index of the request that a table counts: the first extended resource, else the first; -1 without requests.
func scarcest(requests []topology.Request) int {
	for i, r := range requests {
		if strings.Contains(r.Name, "/") {
			return i
		}
	}
	return min(0, len(requests)-1)
}

// Asks is what the gang needs and what binds it, without the numbers of domains: "needs 4 pods x 8 nvidia.com/gpu in one rack inside
// zone-0".
func (r *Refusal) Asks() string {
	switch {
	case r.Code == CodeBaseGangWaits:
		return r.waitsText()
	case r.Code == CodeBudgetExhausted || r.short() && r.Closest != nil:
		bare := Refusal{
			Code: r.Code, Need: r.Need, Apart: r.Apart, Level: r.Level, LevelName: r.LevelName, Within: r.Within, Elsewhere: r.Elsewhere,
			Steps: r.Steps, Compared: r.Compared,
			LeftOut: r.LeftOut, NodeSelector: r.NodeSelector, Never: r.Never, Spreading: r.Spreading,
		}
		return strings.Replace(bare.sentence(), seeExplain, "", 1) // the reader of the tables is there
	}
	return r.sentence()
}
