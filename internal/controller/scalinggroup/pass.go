// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalinggroup

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/controller/statuspatch"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/rollout"
)

// pass is one reconcile of a group, with the observed state and the decision.
type pass struct {
	*Reconciler
	observed
	decision
}

// observed is the state from which one reconcile plans its steps.
type observed struct {
	sg       *trellisv1alpha1.ScalingGroup
	pods     found
	replicas map[int32]*replica
	queue    queue
	attempts attempts
	// unseen are the ordinals of replicas with pods that the cache does not show yet.
	unseen []int32
	// ends is the time until the next deleted pod is overdue. reads is the time until the events of a pod have to be read. moves is the
	// time until the next move is overdue or expires. 0 means never.
	ends, reads, moves time.Duration
	// moved: the moves in the status differ from the stored moves.
	moved bool
}

// observe groups the pods by replica, and reads the remaining state of the replicas.
func (p *pass) observe(ctx context.Context) (err error) {
	p.replicas = replicasOf(p.sg, p.pods.own, func(pod *corev1.Pod) bool { return p.nodes().gone(ctx, pod) })
	if err := p.lookForSets(ctx); err != nil {
		return err
	}
	if p.queue, err = p.queueOf(ctx, p.sg); err != nil {
		return err
	}
	p.queue.judge(p.sg, p.pods.own, p.replicas)
	p.lookForMoves(ctx)
	if err := p.lookForMetadata(ctx); err != nil {
		return err
	}
	p.lookForEnds(ctx)
	p.lookForCauses(ctx)
	p.attempts.answered, p.attempts.begun = p.Asks.Answered(p.sg)
	if p.attempts.recorded, err = p.Recorded(ctx, p.sg); err != nil {
		return err
	}
	if err := p.lookForCreations(ctx); err != nil {
		return err
	}
	return errors.Join(p.lookForExcess(ctx), p.lookForNeighbours(ctx))
}

// decision is the plan of one reconcile, its steps, and the delays of its creates.
type decision struct {
	next    rollout.Plan
	failing backOff
	steps   steps
	allowed allowance
}

// decide plans the rollout, removes from the plan the creates of replicas whose recreation is delayed, and turns the plan into steps. If
// another client has changed the spec, decide adds no steps until the graph controller has applied its spec again.
func (p *pass) decide(ctx context.Context) error {
	p.next = plan(p.sg, p.replicas, p.attempts.recorded.Ordinals()...)
	p.failing = backOffOf(p.sg, p.replicas, p.refusals.clock())
	if render.EditOf(p.sg) != nil {
		return nil
	}
	next := p.failing.without(p.next)
	p.stepsFor(ctx, next)
	err := p.leaveWhatEnds(ctx, next)
	p.steps.waitFor(p.pods.earlier, p.pods.orphans)
	return err
}

// seenBy is the requeue delay of a group while the cache does not show its new pods or the scheduler has not answered. The requeue is
// needed because an event may be lost, or because creates of other members of the gang may be refused for a long time.
const seenBy = 30 * time.Second

// finish writes the status after a reconcile, and returns the time until the next reconcile.
func (p *pass) finish(ctx context.Context, failure error) (ctrl.Result, error) {
	result := ctrl.Result{RequeueAfter: earliest(earliest(p.ends, earliest(p.reads, p.moves)), earliest(p.allowed.again, p.failing.again))}
	if p.steps.unseen || p.steps.overLimit {
		result.RequeueAfter = earliest(result.RequeueAfter, seenBy)
	}
	if failure == nil && p.steps.onlyMake() {
		again := seenBy
		if p.steps.more {
			again = time.Millisecond
		}
		result.RequeueAfter = earliest(result.RequeueAfter, again)
		return result, nil // the events of the new pods will trigger a reconcile, which reports them
	}
	shown := errors.Join(p.allowed.refused, failure)
	status := statusOf(p.sg, p.replicas, p.next, shown)
	p.failing.into(p.sg, p.replicas, &status)
	again, err := p.report(ctx, p.sg, status)
	result.RequeueAfter = earliest(result.RequeueAfter, again)
	return result, errors.Join(failure, err)
}

// remember writes new failures into the status before the failed pods are deleted.
func (p *pass) remember(ctx context.Context) error {
	if !p.failing.isNew {
		return nil
	}
	p.sg.Status.FailedReplicas = p.failing.failed
	_, err := statuspatch.Write(ctx, p.Client, p.sg.DeepCopy(), p.sg.Status)
	return wrapped(err, "writing failures into the status")
}
