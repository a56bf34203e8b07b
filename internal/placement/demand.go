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
	// Shape is the part of the pod's spec that determines which nodes can hold the pod.
	Shape *topology.Shape
}

// Demand is one deployment as the planner sees it: the replicas to place, and the domains to which active members are already pinned.
type Demand struct {
	// Name is the name of the graph in messages.
	Name string
	// Levels and NodeSelector select the topology tree, as frozen when the graph was admitted. Without levels, the only domain is the
	// cluster.
	Levels       topology.Levels
	NodeSelector map[string]string
	// Required is a level (an index into Levels): one domain of this level must hold the whole graph. NoLevel: none. GoneLevel, or an index
	// beyond Levels: the level no longer exists, so replicas are placed only if the graph has an Anchor. Preferred is a narrower level,
	// which is tried first.
	Required, Preferred int
	// Anchor is the graph domain that active members are pinned to; nil while the plan may choose any graph domain.
	Anchor topology.Path
	// Priority is the priority of the pods. Preempts allows the plan to use the capacity of bound pods with lower priority if the graph
	// does not fit otherwise.
	Priority   int32
	Preempts   bool
	Components []Component
	// Pairing places the replicas of two roles in the same domains; nil: they are placed independently.
	Pairing *Pairing
	// Refused lists, by [topology.Shape.Digest], the places that a scheduler refused for pods of a shape.
	Refused map[string][]RefusedPlace
}

// RefusedPlace is a place that a scheduler refused for pods of a shape. For pods of this shape, the plan excludes the place, or uses it
// only as a last resort if Last is set.
type RefusedPlace struct {
	topology.Refused
	Last bool
}

// Component is one entry of spec.components. Its constraint applies to each replica separately if Multinode is set, else to all replicas
// together.
type Component struct {
	Name                string
	Multinode           bool
	Required, Preferred int
	// Role is the role of the replicas in the demand's pairing.
	Role Role
	// Apart places each pod of a replica on a different host. Pods of different replicas may share a host.
	Apart bool
	// Place selects the topology tree of the component in a demand without a constraint; nil: the tree of the demand's levels and node
	// selector.
	Place *Place
	// Spread describes how the replicas are spread over domains; nil if they are not spread.
	Spread *Spread
	// Anchor is the domain of a single-node component's active replicas; nil when there are none. Each multinode replica has its own
	// anchor.
	Anchor topology.Path
	// InUse lists the domains of active replicas. With a preferred level of the component or the graph, these domains are tried first
	// (docs/placement.md#which-domain).
	InUse []topology.Path
	// MinAvailable is the number of replicas that the component needs to run. While no replica is placed, the first MinAvailable replicas
	// are placed together or not at all. 0 means 1.
	MinAvailable int
	// Placed counts the replicas that already have a place.
	Placed int
	// Waiting are the replicas to place, by ordinal.
	Waiting []Replica
}

// Replica is one gang: it is placed as a unit or not at all.
type Replica struct {
	Ordinal int
	// Anchor is the domain to which some pods of this replica are already pinned, after an interrupted release. The other pods must be
	// placed there too. nil: none.
	Anchor topology.Path
	// On are the IDs of the replica's pods that already have hosts. If the component has Apart set, the pods to place must not use these
	// hosts.
	On []string
	// Hint is the replica's former domain, which is tried first.
	Hint topology.Path
	// Avoid are hosts that the replica's pods use only as a last resort, the worst first.
	Avoid []string
	// Generation is the generation of workers that the replica belongs to.
	Generation string
	// Later marks a replica that must not be placed yet. It is considered when domains are compared, but takes no capacity and gets no
	// result.
	Later bool
	Pods  []Pod

	// useLast lets the replica use its last-resort places ([RefusedPlace].Last).
	useLast bool
}
