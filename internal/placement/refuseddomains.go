// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"strings"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// Domain describes the capacity of one domain for a refused gang. All numbers except Holds are for the first shape that does not fit into
// the closest domain. All amounts are of this shape's first extended resource, or of its first resource if it requests no extended
// resource. Open and the hosts of Excluded add up to Hosts.
type Domain struct {
	Path topology.Path
	// Holds is how many pods of the gang fit, over all shapes. For gangs of several shapes or parts, it is an upper bound.
	Holds int
	// Hosts counts the hosts of the domain, Open the hosts that take a pod now.
	Hosts, Open int
	// Free is the free amount of Resource on all hosts that admit the pods, Largest the free amount on one host. Each is the request of one
	// pod. Amounts of cpu are in thousandths.
	Resource            string
	Free, Largest, Each int64
	// Excluded counts the hosts that take no pod, per reason, most frequent first.
	Excluded []Excluded
}

// list records the compared domains in a refusal, and separately the domains of the level outside r.Within.
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

// count computes the figures of one domain for pods of one shape.
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

// scarcest returns the index of the request that the tables of domains show: the first extended resource, else the first resource; -1
// without requests.
func scarcest(requests []topology.Request) int {
	for i, r := range requests {
		if strings.Contains(r.Name, "/") {
			return i
		}
	}
	return min(0, len(requests)-1)
}

// Asks states the causes of the refusal and the requests of the gang, without the numbers of single domains: "needs 4 pods x 8
// nvidia.com/gpu in one rack inside zone-0".
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
		return strings.Replace(bare.sentence(), seeExplain, "", 1) // tables are part of the output of that command
	}
	return r.sentence()
}
