// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package constraint

import (
	"slices"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
)

// Domains is what a scheduler has to be asked for at one place, in the one normal form that every scheduler understands alike. Preferred,
// when set, is narrower than all that is required at its place.
//
// Users may write a preferred level that says nothing, because it is as broad as what is required anyway. Grove warns of it, KAI never
// schedules it, others ignore it. Here it is dropped, so that no renderer has to know:
//
//	required  preferred       asked for
//	zone      rack            zone, rack first
//	rack      zone            rack
//	rack      rack            rack
//	(none)    rack            rack first, then wider
//	graph: rack, component: zone preferred    nothing for the component: it lies in the graph's rack
type Domains struct {
	Required, Preferred string
}

// Empty reports whether nothing is asked for.
func (d Domains) Empty() bool { return d == Domains{} }

// OfGraph is what the deployment level asks for all pods together.
func OfGraph(t *trellisv1alpha1.ResolvedTopology) Domains {
	if t == nil {
		return Domains{}
	}
	return Domains{t.GraphPackDomain, narrower(t, t.GraphPreferredPackDomain, t.GraphPackDomain)}
}

// OfComponent is what the component level asks for each replica. What it inherits from the deployment level is not repeated.
func OfComponent(t *trellisv1alpha1.ResolvedTopology) Domains {
	if t == nil {
		return Domains{}
	}
	preferred := narrower(t, t.PreferredPackDomain, t.PackDomain)
	return Domains{t.PackDomain, narrower(t, preferred, t.GraphPackDomain)}
}

// narrower returns domain if its level is below that of limit, else "".
func narrower(t *trellisv1alpha1.ResolvedTopology, domain, limit string) string {
	if domain == "" || limit != "" && Level(t, domain) <= Level(t, limit) {
		return ""
	}
	return domain
}

// Level is the position of a domain among the frozen levels, broadest first; -1 when it is none of them.
func Level(t *trellisv1alpha1.ResolvedTopology, domain string) int {
	return slices.IndexFunc(t.Levels, func(l trellisv1alpha1.ResolvedLevel) bool { return l.Domain == domain })
}

// Key is the node label key of a domain, "" for no domain.
func Key(t *trellisv1alpha1.ResolvedTopology, domain string) string {
	if domain == "" {
		return ""
	}
	if at := Level(t, domain); at >= 0 {
		return t.Levels[at].Key
	}
	return ""
}

// BaseGang reports whether the first replicas of every component go together (docs/placement.md#how-much-begins-together): the graph has
// to be in one domain.
func BaseGang(groups []*trellisv1alpha1.ScalingGroup) bool {
	return OfGraph(TopologyOf(groups)).Required != ""
}

// Packed reports whether the group's replicas are gangs or constrained. The pods of other groups are independent of each other.
func Packed(sg *trellisv1alpha1.ScalingGroup) bool {
	t := sg.Spec.Topology
	return sg.Spec.Multinode || !OfGraph(t).Empty() || !OfComponent(t).Empty() || Spread(t) || Transfers(t)
}

// TopologyOf returns a frozen topology of the graph for what all its groups share: profile, levels and the deployment level. Nil without
// any. Of groups that follow several default topologies it is that of the first component by name.
func TopologyOf(groups []*trellisv1alpha1.ScalingGroup) *trellisv1alpha1.ResolvedTopology {
	var first *trellisv1alpha1.ScalingGroup
	for _, sg := range groups {
		if sg.Spec.Topology != nil && (first == nil || sg.Spec.Service < first.Spec.Service) {
			first = sg
		}
	}
	if first == nil {
		return nil
	}
	return first.Spec.Topology
}
