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

// Reasons of events of a deployment.
const (
	// EventPreempting means that a gang is placed where other pods must be preempted to free capacity.
	EventPreempting = "Preempting"
	// EventMoved means that a lost replica is recreated as a unit in another domain.
	EventMoved = "ReplicaMoved"
	// EventDomainReserved means that hosts of a domain are reserved for a gang.
	EventDomainReserved = "DomainReserved"
	// EventRepacking means that running replicas of other deployments move so that a gang gets a place. EventRepackEnded means that no
	// further replicas move, and that the gang has no place.
	EventRepacking   = "Repacking"
	EventRepackEnded = "RepackEnded"
)

// reportPreemption reports the pods that must be preempted for a replica, or for the base gang of the replica.
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

// reportMove reports that a replica moves to another domain. move names the domains and the reason; "" if the replica does not move.
func (d *decision) reportMove(ctx context.Context, dgd *nvidiav1beta1.DynamoGraphDeployment, replica placement.ReplicaResult, move string) {
	if move == "" {
		return
	}
	name := fmt.Sprintf("%s-%d", replica.Component, replica.Ordinal)
	replicasMoved.Inc()
	logger(ctx, dgd).Info("moving a replica as a unit", "replica", name, "move", move)
	d.report(EventMoved, "%s moves as a unit %s", name, move)
}
