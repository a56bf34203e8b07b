// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"github.com/trellis-k8s/trellis/internal/topology"
)

// Pod is one pod to place.
type Pod struct {
	// ID identifies the pod in the cluster, e.g. its UID; a what-if uses namespace/name.
	ID string
	// Name is the name of the pod in messages and results.
	Name string
	// Shape is the part of the pod's spec that decides which nodes can hold it.
	Shape *topology.Shape
}

// Demand is one deployment as the planner sees it: the replicas to place, and the domains that active members already pin.
type Demand struct {
	// Name is the name of the graph in messages.
	Name string
	// Levels and NodeSelector choose the tree, as frozen when the graph was admitted. Without levels, the only domain is the cluster.
	Levels       topology.Levels
	NodeSelector map[string]string
	// Required is the level (index into Levels) that holds the whole graph in one domain. NoLevel: none. GoneLevel, or an index beyond Levels:
	// the level no longer exists, so nothing without an anchor may be placed. Preferred is the narrower level tried first.
	Required, Preferred int
	// Anchor is the graph domain that active members are pinned to; nil while the graph is free to choose.
	Anchor topology.Path
	// Priority of the pods. With Preempts set, the capacity of bound pods with lower priority is used when nothing else fits.
	Priority   int32
	Preempts   bool
	Components []Component
	// Pairing places the replicas of two roles in the same domains; nil: they are placed independently.
	Pairing *Pairing
	// Refused are the places that a scheduler refused for pods of a shape, by [topology.Shape.Digest].
	Refused map[string][]RefusedPlace
}

// RefusedPlace is a place that a scheduler refused for pods of a shape. The plan excludes it for such pods, or uses it last if Last is set.
type RefusedPlace struct {
	topology.Refused
	Last bool
}

// Component is one entry of spec.components. Its unit, which the constraint packs, is one replica if Multinode, else all replicas.
type Component struct {
	Name                string
	Multinode           bool
	Required, Preferred int
	// Role is the role of the replicas in the demand's pairing.
	Role Role
	// Apart places the pods of each replica on hosts of their own. Several replicas may share hosts.
	Apart bool
	// Place is the component's own tree, instead of the demand's levels and node selector in a demand without a constraint; nil: the demand's.
	Place *Place
	// Spread is how the replicas are spread over domains; nil: they are not.
	Spread *Spread
	// Anchor is the domain of a single-node component's active replicas; nil when there are none. Multinode replicas have their own anchors.
	Anchor topology.Path
	// InUse are the domains of active replicas. A preferred level of the component or the graph tries them first
	// (docs/placement.md#which-domain).
	InUse []topology.Path
	// MinAvailable is how many replicas the component needs to run: while none is placed, the first MinAvailable replicas are placed together
	// or not at all. 0 means 1.
	MinAvailable int
	// Placed counts the replicas that already have a place.
	Placed int
	// Waiting are the replicas to place, by ordinal.
	Waiting []Replica
}

// Replica is one gang: it is placed as a unit or not at all.
type Replica struct {
	Ordinal int
	// Anchor is the domain of pods of this replica that are already pinned; the rest must follow after an interrupted release. nil: none.
	Anchor topology.Path
	// On are the IDs of the replica's pods that already have hosts. Pods that need hosts of their own avoid these hosts.
	On []string
	// Hint is the replica's former domain, which is tried first.
	Hint topology.Path
	// Avoid are hosts that the replica's pods use only as a last resort, the worst first.
	Avoid []string
	// Generation is the generation of workers that the replica belongs to.
	Generation string
	// Later marks a replica that is not to be placed yet. It counts when domains are compared, takes no capacity, and has no result.
	Later bool
	Pods  []Pod

	// useLast lets the replica use its last-resort places ([RefusedPlace].Last).
	useLast bool
}
