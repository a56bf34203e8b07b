// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"fmt"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/placement"
)

// Reasons of events about where a replica is placed.
const (
	// EventPreempting means that a gang gets capacity which others have to free.
	EventPreempting = "Preempting"
	// EventMoved means that a replica that was lost returns, whole, in another domain than it had been in.
	EventMoved = "ReplicaMoved"
)

// place decides the releases of replicas that the planner has found capacity for, and reports what is remarkable about them.
func (l *ledger) place(ctx context.Context, o gang.Observation, r *gang.Request, planned *placement.Result,
	placed []placement.ReplicaResult, d *decision) {
	base, baseReported := r.BaseName(planned), false
	_, again := l.failures[d.graph] // what is tried again was reported and measured before
	for _, replica := range placed {
		d.countPlaced(o, r, replica)
		if !again {
			l.observePlaced(o, r, replica)
			if p := replica.Preempts; p != nil && (!replica.Base || !baseReported) {
				baseReported = baseReported || replica.Base
				d.reportPreemption(ctx, o.DGD, replica)
			}
			d.reportMove(ctx, o.DGD, replica, r.Moved(l.cluster, replica))
		}
		releases := r.Releases(l.cluster, replica, base)
		if r.Creation(replica) != nil {
			d.creations = append(d.creations, plannedCreation{
				key: gang.Key{Component: replica.Component, Ordinal: replica.Ordinal}, gang: releases[0].Pin.Gang, domain: releases[0].Domain,
				releases: releases,
			})
			continue
		}
		for _, release := range releases {
			l.pods.begin(release, l.clock.Now())
			d.releases = append(d.releases, release)
		}
	}
}

// reportPreemption reports who has to free capacity for a replica, or for the base gang it is of.
func (d *decision) reportPreemption(ctx context.Context, dgd *nvidiav1beta1.DynamoGraphDeployment, replica placement.ReplicaResult) {
	name := "the base gang"
	if !replica.Base {
		name = fmt.Sprintf("%s-%d", replica.Component, replica.Ordinal)
	}
	preemptionsPlanned.Inc()
	who := gang.Victims(replica.Preempts)
	logger(ctx, dgd).Info("preempting", "replica", name, "domain", replica.Domain.String(), "pods", replica.Preempts.Pods, "of", who)
	d.report(EventPreempting, "%s goes to %s, where pods of lower priority have to free capacity: %d of %s",
		name, gang.OrCluster(replica.Domain), replica.Preempts.Pods, who)
}

// reportMove reports that a replica is recreated elsewhere, and why; "" when it does not.
func (d *decision) reportMove(ctx context.Context, dgd *nvidiav1beta1.DynamoGraphDeployment, replica placement.ReplicaResult, move string) {
	if move == "" {
		return
	}
	name := fmt.Sprintf("%s-%d", replica.Component, replica.Ordinal)
	replicasMoved.Inc()
	logger(ctx, dgd).Info("moving a replica as a unit", "replica", name, "move", move)
	d.report(EventMoved, "%s moves as a unit %s", name, move)
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
