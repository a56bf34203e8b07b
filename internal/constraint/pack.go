// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package constraint

import (
	"slices"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
)

// Domains are the domains that a constraint requests from a scheduler, either for all pods of a deployment or for each replica of a
// component. They are in a normal form that all schedulers interpret equally: Preferred, if set, is narrower than every required domain
// that applies.
//
// Users may write a preferred level that has no effect, because it is as broad as the required level. Grove warns about such a level, KAI
// never schedules the pods, and other schedulers ignore it. The normal form drops such a level, so renderers need not handle it:
//
//	required  preferred       requested
//	zone      rack            zone, rack first
//	rack      zone            rack
//	rack      rack            rack
//	(none)    rack            rack first, then wider
//	graph: rack, component: zone preferred    nothing for the component: it lies in the graph's rack
type Domains struct {
	Required, Preferred string
}

// Empty reports whether no domain is requested.
func (d Domains) Empty() bool { return d == Domains{} }

// OfGraph returns the domains that the deployment level of a constraint requests for all pods together.
func OfGraph(t *trellisv1alpha1.ResolvedTopology) Domains {
	if t == nil {
		return Domains{}
	}
	return Domains{t.GraphPackDomain, narrower(t, t.GraphPreferredPackDomain, t.GraphPackDomain)}
}

// OfComponent returns the domains that the component level of a constraint requests for each replica. It excludes domains inherited from
// the deployment level.
func OfComponent(t *trellisv1alpha1.ResolvedTopology) Domains {
	if t == nil {
		return Domains{}
	}
	preferred := narrower(t, t.PreferredPackDomain, t.PackDomain)
	return Domains{t.PackDomain, narrower(t, preferred, t.GraphPackDomain)}
}

// narrower returns domain if its level is narrower than the level of limit, else "".
func narrower(t *trellisv1alpha1.ResolvedTopology, domain, limit string) string {
	if domain == "" || limit != "" && Level(t, domain) <= Level(t, limit) {
		return ""
	}
	return domain
}

// Level returns the index of a domain among the frozen levels, broadest first; -1 if no level has this domain.
func Level(t *trellisv1alpha1.ResolvedTopology, domain string) int {
	return slices.IndexFunc(t.Levels, func(l trellisv1alpha1.ResolvedLevel) bool { return l.Domain == domain })
}

// Key returns the node label key of a domain, "" for no domain.
func Key(t *trellisv1alpha1.ResolvedTopology, domain string) string {
	if domain == "" {
		return ""
	}
	if at := Level(t, domain); at >= 0 {
		return t.Levels[at].Key
	}
	return ""
}

// BaseGang reports whether the first replicas of every component start together (docs/placement.md#how-much-begins-together), which is the
// case if the graph requires one domain.
func BaseGang(groups []*trellisv1alpha1.ScalingGroup) bool {
	return OfGraph(TopologyOf(groups)).Required != ""
}

// Packed reports whether the group's replicas are gangs or constrained. The pods of other groups are placed independently.
func Packed(sg *trellisv1alpha1.ScalingGroup) bool {
	t := sg.Spec.Topology
	return sg.Spec.Multinode || !OfGraph(t).Empty() || !OfComponent(t).Empty() || Spread(t) || Transfers(t)
}

// TopologyOf returns the frozen topology of the first component, by name, that has a frozen topology; nil if none has. All groups of the
// graph have the same topology name, levels and deployment-level domains, unless they use different default topologies.
func TopologyOf(groups []*trellisv1alpha1.ScalingGroup) *trellisv1alpha1.ResolvedTopology {
	var first *trellisv1alpha1.ScalingGroup
	for _, sg := range groups {
		if sg.Spec.Topology != nil && (first == nil || sg.Spec.Component < first.Spec.Component) {
			first = sg
		}
	}
	if first == nil {
		return nil
	}
	return first.Spec.Topology
}
