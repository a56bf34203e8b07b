// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pack reads out of a scaling group's frozen constraint what a scheduler has to be asked for, in the one normal form that every
// scheduler understands alike.
//
// Users may write a preferred level that says nothing, because it is as broad as what is required anyway. Grove warns of it, KAI never
// schedules it, others ignore it. Here it is dropped, so that no renderer has to know:
//
//	required  preferred       asked for
//	zone      rack            zone, rack first
//	rack      zone            rack
//	rack      rack            rack
//	(none)    rack            rack first, then wider
//	graph: rack, unit: zone preferred    nothing for the unit: it lies in the graph's rack
package pack

import (
	"cmp"
	"slices"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
)

// Constraint is one pair of domain names. Preferred, when set, is narrower than all that is required at its place.
type Constraint struct {
	Required, Preferred string
}

// Empty says that nothing is asked for.
func (c Constraint) Empty() bool { return c == Constraint{} }

// Graph is what the deployment level asks for all pods together.
func Graph(t *trellisv1alpha1.ResolvedTopology) Constraint {
	if t == nil {
		return Constraint{}
	}
	return Constraint{t.GraphPackDomain, narrower(t, t.GraphPreferredPackDomain, t.GraphPackDomain)}
}

// Unit is what the service level asks for each unit. What it inherits from the deployment level is not repeated.
func Unit(t *trellisv1alpha1.ResolvedTopology) Constraint {
	if t == nil {
		return Constraint{}
	}
	preferred := narrower(t, t.PreferredPackDomain, t.PackDomain)
	return Constraint{t.PackDomain, narrower(t, preferred, t.GraphPackDomain)}
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

// BaseGang says that the first replicas of every service go together (docs/placement.md#how-much-begins-together): the graph has to be in one domain.
func BaseGang(groups []*trellisv1alpha1.ScalingGroup) bool {
	return Graph(TopologyOf(groups)).Required != ""
}

// Packed says whether the group's replicas are gangs or constrained. The pods of other groups are independent of each other.
func Packed(sg *trellisv1alpha1.ScalingGroup) bool {
	return sg.Spec.Multinode || !Graph(sg.Spec.Topology).Empty() || !Unit(sg.Spec.Topology).Empty()
}

// TopologyOf returns a frozen topology of the graph for what all its groups share: profile, levels and the deployment level. Nil without any.
func TopologyOf(groups []*trellisv1alpha1.ScalingGroup) *trellisv1alpha1.ResolvedTopology {
	for _, sg := range groups {
		if sg.Spec.Topology != nil {
			return sg.Spec.Topology
		}
	}
	return nil
}

// Sorted returns the groups by service, so that what is rendered never depends on the order of a list.
func Sorted(groups []*trellisv1alpha1.ScalingGroup) []*trellisv1alpha1.ScalingGroup {
	return slices.SortedFunc(slices.Values(groups), func(a, b *trellisv1alpha1.ScalingGroup) int {
		return cmp.Compare(a.Spec.Service, b.Spec.Service)
	})
}

// PriorityClass is the priority class of all pods of the graph, or "" when they have none or do not agree.
func PriorityClass(groups []*trellisv1alpha1.ScalingGroup) string {
	class := ""
	for i, sg := range groups {
		for j := range sg.Spec.Roles {
			name := sg.Spec.Roles[j].Template.Spec.PriorityClassName
			if i+j > 0 && name != class {
				return ""
			}
			class = name
		}
	}
	return class
}
