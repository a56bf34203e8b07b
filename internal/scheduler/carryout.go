// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// recordRetry is the delay before the next evaluation after a failed write of a record without new places.
const recordRetry = 10 * time.Second

// carryOut records a decision, and then releases the placed gangs and answers the groups that requested places. Until the record is
// written, the graph is not evaluated. A decision that neither changes the record nor releases recorded gangs is carried out immediately.
func (w *writers) carryOut(ctx context.Context, dgd *nvidiav1beta1.DynamoGraphDeployment, gangs []*gangRelease, d *decision) {
	decided := *d
	if decided.record == nil && !decided.byRecord {
		w.start(ctx, dgd, gangs, &decided)
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
			w.notRecorded(ctx, dgd, &decided, err)
		} else {
			w.start(ctx, dgd, gangs, &decided)
		}
		w.queue.wakeUp(w.ledger.decided(decided.graph, 1))
	}()
}

// record writes the record of a decision. If the decision releases recorded gangs and does not change the record, record only checks that
// no other client has changed the stored record.
func (w *writers) record(ctx context.Context, dgd *nvidiav1beta1.DynamoGraphDeployment, d *decision) error {
	if d.record == nil {
		err := w.placements.isNewest(ctx, dgd, d.recorded)
		if err == nil {
			w.ledger.carriedOut(d, d.recorded.record)
		}
		return err
	}
	if err := w.placements.noneReleased(ctx, dgd, d.again); err != nil {
		return err
	}
	err := w.placements.write(ctx, dgd, d.recorded, d.record)
	if err == nil {
		w.ledger.carriedOut(d, d.record)
	}
	return err
}

// start releases the gangs of a decision, and answers the groups that requested places.
func (w *writers) start(ctx context.Context, dgd *nvidiav1beta1.DynamoGraphDeployment, gangs []*gangRelease, d *decision) {
	w.release(ctx, gangs)
	w.answer(ctx, dgd, d)
}

// notRecorded gives back the capacity of a decision that could not be recorded, and requeues the graph.
func (w *writers) notRecorded(ctx context.Context, dgd *nvidiav1beta1.DynamoGraphDeployment, d *decision, err error) {
	logNotRecorded(ctx, dgd, err)
	for _, release := range d.releases {
		w.ledger.notReleased(release, w.ledger.isBegun(topology.PodID(release.Pod)), err)
	}
	w.asks.answer(d.graph, nil, d.gated)
	switch {
	case changedMeanwhile(err):
		w.queue.retry(d.graph, w.clock.Now())
	case len(d.releases) > 0:
		w.queue.wakeUp(w.ledger.releaseFailed(d.graph, err))
	default:
		w.queue.addAt(d.graph, w.clock.Now().Add(recordRetry))
	}
}

// changedMeanwhile reports whether a record was not written because the object or the pods changed after they were read.
func changedMeanwhile(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || overtaken(err)
}

// logNotRecorded logs a failed write of a record. Failures caused by changes of other clients are normal, and are not logged as errors.
func logNotRecorded(ctx context.Context, dgd *nvidiav1beta1.DynamoGraphDeployment, err error) {
	switch {
	case ctx.Err() != nil:
	case changedMeanwhile(err):
		logger(ctx, dgd).Info("the GraphPlacement or its pods changed meanwhile, and the deployment is placed again", "cause", err.Error())
	default:
		logger(ctx, dgd).Error(err, "writing the GraphPlacement")
	}
}
