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
func (g Graph) bounded() Graph {
	g.Services = slices.Clone(g.Services)
	for i := range g.Services {
		s := &g.Services[i]
		s.Waiting = slices.Clone(s.Waiting)
		for j := range s.Waiting {
			s.Waiting[j].Avoid = slices.Clip(s.Waiting[j].Avoid[:min(len(s.Waiting[j].Avoid), maxAvoided)])
		}
	}
	return g
}

// avoids says whether any replica avoids a host.
func (g Graph) avoids() bool {
	return slices.ContainsFunc(g.Services, func(s Service) bool {
		return slices.ContainsFunc(s.Waiting, func(r Replica) bool { return len(r.Avoid) > 0 })
	})
}

// avoiding is the graph with pods that stay off the hosts which their replica avoids.
func (g Graph) avoiding() Graph {
	if !g.avoids() {
		return g
	}
	out := g.bounded()
	for i := range out.Services {
		for j := range out.Services[i].Waiting {
			r := &out.Services[i].Waiting[j]
			r.Pods = slices.Clone(r.Pods)
			shapes := map[*topology.Shape]*topology.Shape{}
			for k, pod := range r.Pods {
				if shapes[pod.Shape] == nil {
					shapes[pod.Shape] = pod.Shape.Avoiding(r.Avoid)
				}
				r.Pods[k].Shape = shapes[pod.Shape]
			}
		}
	}
	return out
}

// yield gives up the last host that each refused replica avoids, and returns whether there was one.
func (g Graph) yield(a *attempt) bool {
	some := false
	for si, service := range a.p.services {
		for ri := range service.Waiting {
			if a.results[si][ri].Refusal == nil || service.Waiting[ri].Later {
				continue
			}
			if r := g.replica(service.Name, service.Waiting[ri].Ordinal); r != nil && len(r.Avoid) > 0 {
				r.Avoid, some = r.Avoid[:len(r.Avoid)-1], true
			}
		}
	}
	return some
}

func (g Graph) replica(service string, ordinal int) *Replica {
	for i := range g.Services {
		if s := &g.Services[i]; s.Name == service {
			if at := slices.IndexFunc(s.Waiting, func(r Replica) bool { return r.Ordinal == ordinal }); at >= 0 {
				return &s.Waiting[at]
			}
		}
	}
	return nil
}
