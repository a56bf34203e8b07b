// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"

	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/placement"
)

// place decides the releases of replicas that the planner has found capacity for, and reports preemptions and moves.
func (l *ledger) place(ctx context.Context, o gang.Observation, r *gang.Request, planned *placement.Result,
	placed []placement.ReplicaResult, d *decision) {
	base, baseReported := r.BaseName(planned), false
	_, again := l.failures[d.graph] // what is tried again was reported and measured before
	for _, replica := range placed {
		d.countPlaced(o, r, replica)
		if replica.Preempts != nil {
			l.holds.notePreemptor(replica.Preempts, d.graph, l.clock.Now())
		}
		if !again {
			l.observePlaced(o, r, replica)
			if p := replica.Preempts; p != nil && (!replica.Base || !baseReported) {
				baseReported = baseReported || replica.Base
				d.reportPreemption(ctx, o.DGD, replica)
			}
			d.reportMove(ctx, o.DGD, replica, r.Moved(l.cluster, replica))
		}
		for _, release := range r.Releases(l.cluster, replica, base) {
			l.beginRelease(release, d.graph)
			d.releases = append(d.releases, release)
		}
	}
}

// countPlaced counts a replica as placed, or, when releases of its graph fail repeatedly, as waiting until one works.
func (d *decision) countPlaced(o gang.Observation, r *gang.Request, replica placement.ReplicaResult) {
	surplus := r.Surplus(replica.Component, replica.Ordinal)
	switch {
	case replica.Preempts != nil && o.Failing == "" && !surplus:
		d.result.Waiting = append(d.result.Waiting, gang.Waiting{
			Component: replica.Component, Ordinal: replica.Ordinal, Code: gang.CodePreempting, Message: gang.Preempts(replica),
		})
	case o.Failing == "" && !surplus:
		d.result.Placed++
	case o.Failing != "" && !surplus:
		d.result.Waiting = append(d.result.Waiting, gang.Waiting{
			Component: replica.Component, Ordinal: replica.Ordinal, Code: gang.CodeReleaseRefused, Message: o.Failing,
		})
	}
}
