// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// carryOut records a decision, and then releases and offers what it has placed. It waits for the record of none but what is recorded
// already: meanwhile the graph is not evaluated.
func (w *writers) carryOut(ctx context.Context, dgd *nvidiav1beta1.DynamoGraphDeployment, gangs []*gangRelease, creations *Creations,
	d *decision) {
	decided := *d
	if decided.record == nil && !decided.byRecord {
		w.start(ctx, dgd, gangs, creations, &decided)
		return
	}
	w.ledger.decides(decided.graph, 1)
	if !w.slot(ctx) {
		return
	}
	go func() {
		err := w.record(ctx, dgd, &decided)
		<-w.slots
		if err != nil {
			w.notRecorded(ctx, dgd, gangs, creations, &decided, err)
		} else {
			w.start(ctx, dgd, gangs, creations, &decided)
		}
		w.queue.wakeUp(w.ledger.decided(decided.graph, 1))
	}()
}

// record records a decision. What is released by the record as it is needs that to be the newest one.
func (w *writers) record(ctx context.Context, dgd *nvidiav1beta1.DynamoGraphDeployment, d *decision) error {
	if d.record == nil {
		return w.placements.isNewest(ctx, dgd, d.recorded)
	}
	if err := w.placements.noneReleased(ctx, dgd, d.again); err != nil {
		return err
	}
	return w.placements.write(ctx, dgd, d.recorded, d.record)
}

// start releases the gangs of a decision, and answers the groups that asked for places.
func (w *writers) start(ctx context.Context, dgd *nvidiav1beta1.DynamoGraphDeployment, gangs []*gangRelease, creations *Creations,
	d *decision) {
	w.release(ctx, gangs)
	w.answer(ctx, dgd, creations, d)
}

// answer answers the groups that asked for places.
func (w *writers) answer(ctx context.Context, dgd *nvidiav1beta1.DynamoGraphDeployment, creations *Creations, d *decision) {
	if creations != nil {
		w.offer(ctx, dgd, creations, d.creations, w.clear)
		creations.tellAll(d.answered)
	}
}

// notRecorded gives back what a decision has placed that could not be recorded.
func (w *writers) notRecorded(ctx context.Context, dgd *nvidiav1beta1.DynamoGraphDeployment, gangs []*gangRelease, creations *Creations,
	d *decision, err error) {
	if ctx.Err() == nil {
		logger(ctx, dgd).Error(err, "recording where replicas are placed")
	}
	for _, g := range gangs {
		for _, release := range g.pods {
			w.ledger.notReleased(release.Pod, w.ledger.isBegun(topology.PodID(release.Pod)), err)
		}
	}
	if creations != nil {
		creations.withdraw(d.creations)
		creations.tellAll(d.answered)
	}
	changed := apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || overtaken(err)
	if len(gangs)+len(d.creations) > 0 && !changed {
		w.queue.wakeUp(w.ledger.releaseFailed(d.graph, err))
	} else {
		w.queue.retry(d.graph, w.clock.Now())
	}
}
