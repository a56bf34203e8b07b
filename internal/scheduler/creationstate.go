// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// creationsOfGroup are those of one scaling group.
type creationsOfGroup struct {
	uid   types.UID
	graph types.NamespacedName
	// byOrdinal are the replicas that are to be created, gated those that are created gated from now on.
	byOrdinal map[int32]*creation
	gated     map[int32]bool
	// failed lists the gangs, by name, with pods that could not be created. Their other pods are deleted, and all of them are recreated
	// gated. The value is creation.base.
	failed map[string]bool
}

// concerns reports whether a graph goes by what is known of the group.
func (of *creationsOfGroup) concerns() bool { return of != nil && len(of.byOrdinal)+len(of.failed) > 0 }

// creationState is how far a creation is.
type creationState int

const (
	creationAsked creationState = iota
	creationGated
	creationPlaced
	creationOffered
	creationBegun
	creationMade
)

// creation is one replica that is to be created in place.
type creation struct {
	// name differs for each creation of each operator.
	name         string
	group, graph types.NamespacedName
	uid          types.UID
	key          gang.Key
	// version is what the replica is created from. more: the group will ask for further replicas when it has created this one.
	version string
	more    bool
	state   creationState
	// base: it is of a base gang, or the first replica of a component, which decides the domain of others.
	base bool
	// shown: a later read of the group's pods showed what was created.
	shown bool
	// pods stand for those that are to be created.
	pods   []*corev1.Pod
	domain topology.Path
	// attempt is the recorded one; see [gang.Pin].
	attempt int32
	gang    *createdGang
	// releases are where the pods go, by index.
	releases map[int32]gang.Release
	// reserved are the reservations that no pod has taken over yet, as the cluster cache knows them.
	reserved map[string]bool
}

// createdGang is what is created together.
type createdGang struct {
	name    string
	members []*creation
	// created are the pods that exist by the API server's answers.
	created []*corev1.Pod
}

// begun reports whether something of a gang is being created or was.
func (of *createdGang) begun() bool {
	return slices.ContainsFunc(of.members, func(one *creation) bool { return one.state >= creationBegun })
}

// made reports whether all of a gang is created.
func (of *createdGang) made() bool {
	return !slices.ContainsFunc(of.members, func(one *creation) bool { return one.state < creationMade })
}

// complete reports whether all of a gang is being created or was.
func (of *createdGang) complete() bool {
	return !slices.ContainsFunc(of.members, func(one *creation) bool { return one.state < creationBegun })
}

// Want is one replica of which the cache shows nothing, or not all that exists, and that is to be created.
type Want struct {
	Ordinal int32
	// Unseen: pods of it exist by a read past the cache, and the cache does not show them yet. It has begun, and stays as it is.
	Unseen bool
	// More: further replicas, which the group is not to run without, are wanted than are asked for at once.
	More bool
	// Pods returns the pods of the replica by index, as the API server will store them, without Trellis' gate. They become those of the
	// creations.
	Pods func() []*corev1.Pod
}

// Answer is how a replica is created. One that is neither waits: its group is reconciled when there is an answer.
type Answer struct {
	// New: it was asked for just now.
	New bool
	// Gated: its pods are created with Trellis' gate.
	Gated bool
	// Offer is the place to make it in; nil for none.
	Offer *Offer
}

// Offer is the place of a replica that is to be created.
type Offer struct {
	// Creation names the offer, Gang the gang of the pods.
	Creation, Gang string
	// Attempt of the replica; see [gang.Pin].
	Attempt int32
	// Releases are where its pods go, by index.
	Releases map[int32]gang.Release
}

// endedReservation is what is reserved for a pod, by its name, that is not created now.
type endedReservation struct {
	id  string
	pod types.NamespacedName
}
