// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"fmt"

	"github.com/trellis-k8s/trellis/internal/assignment"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/placement"
)

// keepRecordable makes placed replicas wait if the record has no space for them. Base gangs, and the first replicas of a component, stay
// placed in any case, because the pod limit of a graph bounds their size.
func keepRecordable(o gang.Observation, r *gang.Request, a *gang.Answer) {
	if o.Record == nil || len(a.Placed) == 0 {
		return
	}
	room := o.Record.Room()
	var placed []placement.ReplicaResult
	for _, replica := range a.Placed {
		room -= bytesOf(r, replica)
		if room >= 0 || replica.Base || replica.Head {
			placed = append(placed, replica)
			continue
		}
		a.Unmade = append(a.Unmade, replica)
		a.Waiting = append(a.Waiting, gang.Waiting{
			Component: replica.Component, Ordinal: replica.Ordinal, Code: gang.CodeRecordFull,
			Message: fmt.Sprintf("it has capacity in %s; the GraphPlacement of its deployment has no space for it until other gangs are bound",
				gang.OrCluster(replica.Domain)),
		})
	}
	a.Placed = placed
}

// bytesOf returns the maximum number of bytes that a planned replica takes in the record, if the replica is a separate gang.
func bytesOf(r *gang.Request, replica placement.ReplicaResult) int {
	place := assignment.Place{Domain: replica.Domain}
	for _, pod := range replica.Pods {
		place.Hosts = append(place.Hosts, pod.Node)
	}
	key := gang.Key{Component: replica.Component, Ordinal: replica.Ordinal}
	g := assignment.Gang{Places: map[assignment.Key]assignment.Place{key: place}}
	return g.Bytes(r.Graph.Name + "-0123456789")
}
