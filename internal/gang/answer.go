// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// Answer is a plan, sorted into the replicas to release and the replicas that wait.
type Answer struct {
	// Placed are the replicas to release.
	Placed []placement.ReplicaResult
	// Unmade are replicas that are not released because some of their pods, or some pods that are released together with them, do not exist
	// yet. The caller frees the capacity that the plan reserved for these replicas. They are placed once all these pods exist.
	Unmade []placement.ReplicaResult
	// Waiting and Surplus are as in a [Result]. Waiting includes the Unmade replicas.
	Waiting, Surplus []Waiting
	// Unmet contains the requests of the refused gangs; nil when a change of any node may allow a gang to be placed.
	Unmet *placement.Unmet
}

// Answer sorts the replicas of a plan into replicas to release and replicas that wait.
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

// refuse adds a replica that the plan refuses to Waiting or Surplus.
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

// together names, for messages, the replicas that are placed together with a refused replica, including the replica itself; "" for a
// replica that is placed alone, or after the base gang.
func together(replica placement.ReplicaResult) string {
	switch {
	case replica.Base:
		return "the base gang"
	case replica.Head:
		return "the first replicas of " + replica.Component
	}
	return ""
}

// Planned returns the gated pods that the plan covers, by ID. It omits the pods of Unmade replicas, and of replicas that must not be placed
// yet ([placement.Replica].Later).
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

// WaitsForCreation reports whether nothing is released yet because pods of the base gang do not exist. The base gang is released as a unit,
// so it waits until all its replicas exist, including planned replicas that must be created gated.
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

// headsInCreation returns the components whose first replicas are placed together, if some pods of these replicas do not exist yet.
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

// refusals counts the replicas that a plan refuses.
func refusals(planned *placement.Result) (n int) {
	for i := range planned.Replicas {
		if planned.Replicas[i].Refusal != nil {
			n++
		}
	}
	return n
}
