// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"maps"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// RecordedDomains has the domains that a graph, its single-node components and its replicas require their pods to share. It is used while
// recorded gangs are released one after another.
type RecordedDomains struct {
	// decided are the domains that released pods determine, by owner. taken also has the domains of accepted gangs.
	decided, taken map[string]topology.Path
	// failed are the owners of the undecided domains of rejected gangs.
	failed map[string]bool
}

// NewRecordedDomains returns the shared domains that the released pods of a graph determine.
func NewRecordedDomains(o Observation) *RecordedDomains {
	decided := releasedDomains(o)
	return &RecordedDomains{decided: decided, taken: maps.Clone(decided), failed: map[string]bool{}}
}

// Satisfy reports whether the recorded releases of a gang, together with the released pods of the graph, satisfy the graph's frozen
// constraint. A record that another client has written may violate the constraint. Satisfy sets [Release.Undecided].
func (d *RecordedDomains) Satisfy(releases []Release) bool {
	taken := maps.Clone(d.taken)
	for i := range releases {
		r := &releases[i]
		for _, name := range d.undecided(r) {
			if d.failed[name] {
				return false
			}
		}
		for name, level := range sharedDomains(r) {
			if len(r.Domain) <= level {
				return false
			}
			domain := r.Domain.Truncate(level)
			if fixed, known := taken[name]; known && !fixed.Equal(domain) {
				return false
			}
			taken[name] = domain
		}
	}
	for i := range releases {
		releases[i].Undecided = d.undecided(&releases[i])
	}
	d.taken = taken
	return true
}

// Fail records that a gang is rejected. Further recorded gangs must then not determine the undecided domains that they share with this
// gang.
func (d *RecordedDomains) Fail(releases []Release) {
	for i := range releases {
		for _, name := range d.undecided(&releases[i]) {
			d.failed[name] = true
		}
	}
}

// undecided returns the value of [Release.Undecided] for a release.
func (d *RecordedDomains) undecided(r *Release) (domains []string) {
	shared := sharedDomains(r)
	for _, name := range []string{OfGraph, ofComponent(r.Group)} {
		_, shares := shared[name]
		if _, known := d.decided[name]; shares && !known {
			domains = append(domains, name)
		}
	}
	return domains
}

// releasedDomains returns the shared domains of released pods, by owner.
func releasedDomains(o Observation) map[string]topology.Path {
	shared := map[string]topology.Path{}
	for _, pod := range o.Pods {
		sg := groupOf(o.Groups, pod)
		if sg == nil || sg.Spec.Topology == nil || !render.Gated(sg) || Leaving(pod) || o.superseded(sg, pod) {
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
	return shared
}

func ofComponent(sg *trellisv1alpha1.ScalingGroup) string { return "component " + sg.Spec.Component }

// sharedDomains returns the owners of a pod's shared domains, with the required level of each. The owners are the pod's graph, and its
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
		of := ofComponent(r.Group)
		if r.Group.Spec.Multinode {
			of = "replica " + Of(r.Pod)
		}
		out[of] = level
	}
	return out
}
