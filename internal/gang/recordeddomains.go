// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// Satisfy reports whether recorded releases satisfy the constraint that their graph was resolved with, together with what is released of it:
// another client may have written the record.
func Satisfy(o Observation, releases []Release) bool {
	shared := map[string]topology.Path{}
	for _, pod := range o.Pods {
		sg := groupOf(o.Groups, pod)
		if sg == nil || sg.Spec.Topology == nil || !render.Gated(sg) || Leaving(pod) {
			continue
		}
		path, onItsWay := o.Releasing[topology.PodID(pod)]
		switch {
		case onItsWay:
		case render.GateClosed(pod):
			continue
		default:
			path = LevelsOf(sg.Spec.Topology).PathOf(pod.Spec.NodeSelector)
		}
		for name, level := range sharedDomains(&Release{Pod: pod, Group: sg}) {
			if len(path) > level {
				shared[name] = path.Truncate(level)
			}
		}
	}
	for i := range releases {
		for name, level := range sharedDomains(&releases[i]) {
			if len(releases[i].Domain) <= level {
				return false
			}
			domain := releases[i].Domain.Truncate(level)
			if fixed, known := shared[name]; known && !fixed.Equal(domain) {
				return false
			}
			shared[name] = domain
		}
	}
	return true
}

// sharedDomains are the domains that a pod shares with others, by what they are of, with their required levels: its graph, and its
// single-node component or its replica.
func sharedDomains(r *Release) map[string]int {
	out, t := map[string]int{}, r.Group.Spec.Topology
	if t == nil {
		return out
	}
	levels := LevelsOf(t)
	if level := levels.Index(t.GraphPackDomain); level != topology.NoLevel {
		out[OfGraph] = level
	}
	if level := levels.Index(t.PackDomain); level != topology.NoLevel {
		of := "component " + r.Group.Spec.Service
		if r.Group.Spec.Multinode {
			of = "replica " + Of(r.Pod)
		}
		out[of] = level
	}
	return out
}
