// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"slices"

	"github.com/trellis-k8s/trellis/internal/topology"
)

// maxAvoided is how many hosts a replica avoids at most: for each of them the graph may be planned once more.
const maxAvoided = 4

// bounded keeps the first of the hosts that each replica avoids, in lists of its own.
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

// avoids reports whether any replica avoids a host, or a place that a scheduler refused it in.
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

// avoiding is the graph with pods that stay off the hosts which their replica avoids, and off the places that a scheduler refused such
// pods in.
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

// refused are the places that a scheduler refused pods of a shape in, without those that are given up.
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

// keepsLast reports whether some pod of a replica is kept off a place that may be given up.
func (g Demand) keepsLast(r *Replica) bool {
	return !r.useLast && len(g.Refused) > 0 && slices.ContainsFunc(r.Pods, func(pod Pod) bool {
		return slices.ContainsFunc(g.Refused[pod.Shape.Digest()], func(one RefusedPlace) bool { return one.Last })
	})
}

// yield gives up, for each refused replica, the places that come last, or else the last host that it avoids. It returns whether there was
// any.
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
