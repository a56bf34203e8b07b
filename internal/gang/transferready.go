// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"maps"
	"slices"

	"k8s.io/utils/ptr"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// pairMissing adds the replicas of components without a scaling group to the pairing, because the replicas of the other role wait for them.
func (r *Request) pairMissing(o *Observation) {
	p := r.Graph.Pairing
	if p == nil || !r.Creating {
		return
	}
	for i := range o.DGD.Spec.Components {
		c := &o.DGD.Spec.Components[i]
		if slices.ContainsFunc(o.Groups, func(sg *trellisv1alpha1.ScalingGroup) bool { return sg.Spec.Component == c.Name }) {
			continue
		}
		switch c.Type {
		case nvidiav1beta1.ComponentTypePrefill:
			p.Prefill += int(ptr.Deref(c.Replicas, 1))
		case nvidiav1beta1.ComponentTypeDecode:
			p.Decode += int(ptr.Deref(c.Replicas, 1))
		}
	}
}

// sharedDomain is a domain that replicas of one generation share.
type sharedDomain struct{ generation, path string }

// withoutPartner returns the placed replicas that must wait for the other role, if the pairing is required; nil otherwise. Such a replica
// would be alone in its domain, because the replicas of the other role that will share the domain do not exist yet.
func (r *Request) withoutPartner(planned *placement.Result, notReady func(placement.ReplicaResult) bool) map[Key]sharedDomain {
	p := r.Graph.Pairing
	if p == nil || !p.Required || p.Prefill == 0 || p.Decode == 0 {
		return nil
	}
	in := func(generation string, path topology.Path) sharedDomain {
		return sharedDomain{generation, path.Truncate(p.Level).String()}
	}
	roles := map[sharedDomain][2]bool{} // the roles that are in a domain, or ready to be released there
	for _, one := range p.At {
		if len(one.Domain) > p.Level {
			roles[in(one.Generation, one.Domain)] = [2]bool{true, true} // the domain is already in use
		}
	}
	alone := map[Key]sharedDomain{}
	for _, one := range planned.Replicas {
		s := r.component(one.Component)
		at := slices.IndexFunc(s.Waiting, func(w placement.Replica) bool { return w.Ordinal == one.Ordinal })
		if at < 0 || s.Role == placement.NoRole || one.Refusal != nil || len(one.Domain) <= p.Level {
			continue
		}
		domain := in(s.Waiting[at].Generation, one.Domain)
		there := roles[domain]
		switch {
		case len(s.Waiting[at].Anchor) > 0:
			there = [2]bool{true, true}
		case !notReady(one):
			there[s.Role-placement.Prefill] = true
		}
		roles[domain] = there
		if s.Spread == nil {
			alone[Key{Component: one.Component, Ordinal: one.Ordinal}] = domain
		}
	}
	maps.DeleteFunc(alone, func(_ Key, at sharedDomain) bool { return roles[at] == [2]bool{true, true} })
	return alone
}
