// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"

	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/placement"
)

// place adds the releases of placed replicas to the decision, and reports preemptions and moves.
func (e *evaluation) place(ctx context.Context, o gang.Observation, r *gang.Request, planned *placement.Result,
	placed []placement.ReplicaResult) {
	base, baseReported := r.BaseName(planned), false
	_, again := e.failures[e.d.graph] // a release that is tried again was reported and measured before
	for _, replica := range placed {
		e.d.countPlaced(o, r, replica)
		if replica.Preempts != nil {
			e.holds.notePreemptor(replica.Preempts, e.d.graph, e.clock.Now())
		}
		if !again {
			e.observePlaced(o, r, replica)
			if p := replica.Preempts; p != nil && (!replica.Base || !baseReported) {
				baseReported = baseReported || replica.Base
				e.d.reportPreemption(ctx, o.DGD, replica)
			}
			e.d.reportMove(ctx, o.DGD, replica, r.Moved(e.cluster, replica))
		}
		for _, release := range r.Releases(e.cluster, replica, base) {
			e.beginRelease(release, e.d.graph)
			e.d.releases = append(e.d.releases, release)
		}
	}
}

// countPlaced counts a replica as placed or as waiting. A placed replica still waits until preempted pods have left or, if releases of its
// graph fail repeatedly, until a release succeeds. countPlaced does not count surplus replicas.
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
