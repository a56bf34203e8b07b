// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/render"
)

// Reasons of events about where a replica is placed.
const (
	// EventPreempting means that a gang gets capacity which others have to free.
	EventPreempting = "Preempting"
	// EventMoved means that a replica that was lost returns, whole, in another domain than it had been in.
	EventMoved = "ReplicaMoved"
)

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

func (s *Scheduler) report(dgd *nvidiav1beta1.DynamoGraphDeployment, events []event) {
	for _, e := range events {
		s.recorder.Eventf(dgd, nil, corev1.EventTypeNormal, e.reason, "Place", "%s", e.note)
	}
}

// announce reports what waits on the pods that wait, since that is where users look; the graph's status says it too. A result that is not
// new is announced for the replicas that had no pod yet, because they were refused before they were created.
func (s *Scheduler) announce(
	ctx context.Context, dgd *nvidiav1beta1.DynamoGraphDeployment, pods []*corev1.Pod, result gang.Result, isNew bool,
) {
	name := client.ObjectKeyFromObject(dgd)
	first, late, later := gang.FirstPods(pods), s.unannounced[name], map[gang.Key]bool{}
	logged := !isNew
	for _, w := range result.Waiting {
		if w.Code == gang.CodeCreating {
			continue
		}
		if !logged {
			logged = true
			logger(ctx, dgd).Info("waiting", "service", w.Component, "replica", w.Ordinal, "reason", w.Code, "message", w.Message, "replicas",
				len(result.Waiting))
		}
		key := gang.Key{Component: render.LabelValue(w.Component), Ordinal: w.Ordinal}
		switch pod := first[key]; {
		case !isNew && !late[key]:
		case pod == nil:
			later[key] = true
		default:
			s.recorder.Eventf(pod, dgd, eventType(w), w.Code, "Place", "%s", w.Message)
		}
	}
	if s.unannounced[name] = later; len(later) == 0 {
		delete(s.unannounced, name)
	}
}

// eventType: to wait for admission is as it should be.
func eventType(w gang.Waiting) string {
	if w.Code == gang.CodeWaitingForAdmission {
		return corev1.EventTypeNormal
	}
	return corev1.EventTypeWarning
}
