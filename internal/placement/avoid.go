// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"slices"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// maxAvoided is the maximum number of hosts that a replica avoids. PlanGraph may plan the graph once more for each avoided host.
const maxAvoided = 4

// bounded returns a copy of the demand in which each replica avoids at most its first maxAvoided hosts.
func (g Demand) bounded() Demand {
	g.Components = slices.Clone(g.Components)
	for i := range g.Components {
		s := &g.Components[i]
		s.Waiting = slices.Clone(s.Waiting)
		for j := range s.Waiting {
			s.Waiting[j].Avoid = slices.Clip(s.Waiting[j].Avoid[:min(len(s.Waiting[j].Avoid), maxAvoided)])
		}
	}
	return g
}

// avoids reports whether any replica has hosts to avoid, or a scheduler has refused any places for the demand.
func (g *Demand) avoids() bool {
	if len(g.Refused) > 0 {
		return true
	}
	for i := range g.Components {
		for j := range g.Components[i].Waiting {
			if len(g.Components[i].Waiting[j].Avoid) > 0 {
				return true
			}
		}
	}
	return false
}

// avoiding returns the demand with shapes that exclude the avoided hosts and the refused places of each replica.
func (g Demand) avoiding() Demand {
	if !g.avoids() {
		return g
	}
	out := g.bounded()
	for i := range out.Components {
		for j := range out.Components[i].Waiting {
			r := &out.Components[i].Waiting[j]
			r.Pods = slices.Clone(r.Pods)
			shapes := map[*topology.Shape]*topology.Shape{}
			for k, pod := range r.Pods {
				if shapes[pod.Shape] == nil {
					shapes[pod.Shape] = pod.Shape.Avoiding(r.Avoid).Refusing(g.refused(pod.Shape, r.useLast))
				}
				r.Pods[k].Shape = shapes[pod.Shape]
			}
		}
	}
	return out
}

// refused returns the refused places that pods of a shape must not use. With useLast, they may use the last-resort places.
func (g Demand) refused(s *topology.Shape, useLast bool) (places []topology.Refused) {
	if len(g.Refused) == 0 {
		return nil
	}
	for _, one := range g.Refused[s.Digest()] {
		if !one.Last || !useLast {
			places = append(places, one.Refused)
		}
	}
	return places
}

// keepsLast reports whether the plan still excludes a last-resort place of the replica.
func (g Demand) keepsLast(r *Replica) bool {
	return !r.useLast && len(g.Refused) > 0 && slices.ContainsFunc(r.Pods, func(pod Pod) bool {
		return slices.ContainsFunc(g.Refused[pod.Shape.Digest()], func(one RefusedPlace) bool { return one.Last })
	})
}

// yield relaxes the exclusions of each refused replica: it allows the replica's last-resort places or, if they are already allowed, the
// last host that the replica avoids. It reports whether it relaxed any exclusion.
func (g Demand) yield(a *attempt) bool {
	some := false
	for si, component := range a.p.components {
		for ri := range component.Waiting {
			if a.results[si][ri].Refusal == nil || component.Waiting[ri].Later {
				continue
			}
			switch r := g.replica(component.Name, component.Waiting[ri].Ordinal); {
			case r == nil:
			case g.keepsLast(r):
				r.useLast, some = true, true
			case len(r.Avoid) > 0:
				r.Avoid, some = r.Avoid[:len(r.Avoid)-1], true
			}
		}
	}
	return some
}

func (g Demand) replica(component string, ordinal int) *Replica {
	for i := range g.Components {
		if s := &g.Components[i]; s.Name == component {
			if at := slices.IndexFunc(s.Waiting, func(r Replica) bool { return r.Ordinal == ordinal }); at >= 0 {
				return &s.Waiting[at]
			}
		}
	}
	return nil
}
