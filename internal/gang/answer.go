// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// Answer is what a plan comes to.
type Answer struct {
	// Placed replicas are released with their pods.
	Placed []placement.ReplicaResult
	// Unmade replicas have capacity that the plan took for them, and pods that are not made yet: their capacity is given back, and they are
	// placed once all their pods exist.
	Unmade []placement.ReplicaResult
	// Waiting replicas, those of Unmade included, and Surplus ones, as in a [Result].
	Waiting, Surplus []Waiting
	// Unmet is what the refused gangs ask for; nil when a change of any node may matter.
	Unmet *placement.Unmet
}

// Answer sorts a plan into what is released and what waits.
func (r *Request) Answer(planned *placement.Result) Answer {
	var a Answer
	heads := r.headsInCreation(planned)
	notReady := func(replica placement.ReplicaResult) bool {
		return r.incomplete[Key{Component: replica.Component, Ordinal: replica.Ordinal}] || heads[replica.Component] || r.notNow(planned, replica)
	}
	alone := r.withoutPartner(planned, notReady)
	for _, replica := range planned.Replicas {
		key := Key{Component: replica.Component, Ordinal: replica.Ordinal}
		_, waits := alone[key]
		switch {
		case notReady(replica) || waits:
			a.Unmade = append(a.Unmade, replica)
			a.Waiting = append(a.Waiting, Waiting{
				Component: replica.Component, Ordinal: replica.Ordinal, Code: CodeCreating, Message: BeingCreated,
			})
		case replica.Refusal == nil:
			a.Placed = append(a.Placed, replica)
		default:
			a.refuse(replica, r.surplus[key])
		}
	}
	if len(r.Blocked)+len(r.Refused)+len(a.Waiting)+len(a.Surplus) == refusals(planned) {
		a.Unmet = placement.UnmetOf(r.Graph, planned)
	}
	return a
}

// refuse adds a replica that the plan refuses.
func (a *Answer) refuse(replica placement.ReplicaResult, surplus bool) {
	list := &a.Waiting
	if surplus {
		list = &a.Surplus
	}
	*list = append(*list, Waiting{
		Component: replica.Component, Ordinal: replica.Ordinal, Code: replica.Refusal.Code, Message: replica.Refusal.Message(),
		Refusal: replica.Refusal,
		Gang:    together(replica),
	})
}

// together is what messages call the replicas that a refused one is placed with; "" when it is placed alone, or follows others.
func together(replica placement.ReplicaResult) string {
	switch {
	case replica.Base:
		return "the base gang"
	case replica.Head:
		return "the first replicas of " + replica.Component
	}
	return ""
}

// Planned are the gated pods that have had their turn in a plan: all but those of Unmade replicas, and of replicas that are not placed yet.
func (r *Request) Planned(a *Answer) map[string]*corev1.Pod {
	unmade := map[Key]bool{}
	for _, replica := range a.Unmade {
		unmade[Key{Component: replica.Component, Ordinal: replica.Ordinal}] = true
	}
	out := map[string]*corev1.Pod{}
	for _, component := range r.Graph.Components {
		for _, replica := range component.Waiting {
			if replica.Later || unmade[Key{Component: component.Name, Ordinal: replica.Ordinal}] {
				continue
			}
			for _, pod := range replica.Pods {
				if gated := r.Gated[pod.ID]; gated != nil {
					out[pod.ID] = gated
				}
			}
		}
	}
	return out
}

// WaitsForCreation reports whether nothing is released yet: a base gang goes together, and a member of it is still to be created, or is
// to be created gated.
func (r *Request) WaitsForCreation(planned *placement.Result) bool {
	if r.Graph.Required == topology.NoLevel || r.Graph.Anchor != nil {
		return false
	}
	if r.Creating || len(r.replacing) > 0 {
		return true
	}
	return slices.ContainsFunc(planned.Replicas, func(one placement.ReplicaResult) bool {
		return one.Base && (r.incomplete[Key{Component: one.Component, Ordinal: one.Ordinal}] || r.notNow(planned, one))
	})
}

// headsInCreation are the components that begin with several replicas together, of which some are still to be created, or are to be created
// gated.
func (r *Request) headsInCreation(planned *placement.Result) map[string]bool {
	out := map[string]bool{}
	for i := range planned.Replicas {
		one := &planned.Replicas[i]
		if !one.Head {
			continue
		}
		key := Key{Component: one.Component, Ordinal: one.Ordinal}
		if r.replacing[one.Component] || r.incomplete[key] || one.Refusal == nil && created(*one) {
			out[one.Component] = true
		}
	}
	return out
}

// refusals counts the replicas that were refused.
func refusals(planned *placement.Result) (n int) {
	for i := range planned.Replicas {
		if planned.Replicas[i].Refusal != nil {
			n++
		}
	}
	return n
}
