// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"github.com/trellis-k8s/trellis/internal/topology"
)

// Pod is one pod to place.
type Pod struct {
	// ID identifies the pod among all pods the cluster knows, e.g. its UID; a what-if uses namespace/name.
	ID string
	// Name is what messages and results call it.
	Name string
	// Shape is everything of its spec that decides which nodes can hold it.
	Shape *topology.Shape
}

// Demand is one deployment as the planner sees it: what is still to place, and what active members already pin.
type Demand struct {
	// Name is what messages call it.
	Name string
	// Levels and NodeSelector choose the tree (as frozen when the graph was admitted); no levels: only the whole cluster.
	Levels       topology.Levels
	NodeSelector map[string]string
	// Required is the level (index into Levels) that holds the whole graph in one domain; NoLevel: none; GoneLevel (or an index beyond
	// Levels): it was asked for and is gone, so that nothing without an anchor may be placed. Preferred is the narrower level tried first.
	Required, Preferred int
	// Anchor is the graph domain that active members are pinned to; nil while the graph is free to choose.
	Anchor topology.Path
	// Priority of the pods. With Preempts set, bound pods of lower priority count as capacity when nothing else fits.
	Priority   int32
	Preempts   bool
	Components []Component
	// Pairing has the replicas of two roles placed in the same domains; nil: they are placed without regard to each other.
	Pairing *Pairing
	// Refused are the places that a scheduler refused pods of a shape in, by [topology.Shape.Key].
	Refused map[string][]RefusedPlace
}

// RefusedPlace is a place that a scheduler refused pods in. Pods of their shape are not placed there, unless it is Last: then they are,
// when there is no other capacity.
type RefusedPlace struct {
	topology.Refused
	Last bool
}

// Component is one entry of spec.components. Its unit, which its constraint packs, is one replica when Multinode, else all replicas.
type Component struct {
	Name                string
	Multinode           bool
	Required, Preferred int
	// Role of the replicas in the demand's pairing.
	Role Role
	// Apart: the pods of each replica are on hosts of their own. Replicas may share hosts.
	Apart bool
	// Place is where the component is placed instead of the demand's levels and node selector, in a demand without a constraint of its own;
	// nil: there.
	Place *Place
	// Spread says over which domains the replicas are spread; nil: over none.
	Spread *Spread
	// Anchor is the domain of a single-node service's active replicas; nil when there are none. Multinode replicas carry anchors of their own.
	Anchor topology.Path
	// InUse are domains where active replicas sit, which a preferred level of the component or the graph tries first; never a rule
	// (docs/placement.md#which-domain).
	InUse []topology.Path
	// MinAvailable is how many replicas the component is not to run without: while none is placed, the first so many of them are placed
	// together or not at all. 0 means 1.
	MinAvailable int
	// Placed counts replicas that already sit somewhere.
	Placed int
	// Waiting are the replicas to place now, by ordinal.
	Waiting []Replica
}

// Replica is one gang: it is placed whole or not at all.
type Replica struct {
	Ordinal int
	// Anchor: some of its pods are already pinned there and the rest must follow (a release that was cut short); nil otherwise.
	Anchor topology.Path
	// On are the IDs of its pods that have hosts already, which the rest keeps off where the pods are to be apart.
	On []string
	// Hint is the domain it sat in before; tried first, never a rule.
	Hint topology.Path
	// Avoid are hosts that its pods go to only when there is no other capacity, the worst first.
	Avoid []string
	// Generation of workers that it belongs to.
	Generation string
	// Later: it is not to be placed yet. It counts when domains are compared, takes nothing from others, and has no result.
	Later bool
	Pods  []Pod

	// useLast: the places that are [RefusedPlace.Last] are given up.
	useLast bool
}
