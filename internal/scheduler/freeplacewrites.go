// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/leaving"
	"github.com/trellis-k8s/trellis/internal/render"
)

// freePlaces requests moves of replicas so that a waiting gang gets a place, and returns the time until the next decision about moves.
func (s *Scheduler) freePlaces(ctx context.Context) time.Duration {
	due, again := s.ledger.movesDue()
	if !due || s.options.Moves == nil {
		return again
	}
	movable, err := s.objects.movable(ctx)
	if err != nil {
		log.FromContext(ctx).Error(err, "reading from the cache which replicas may move")
		return time.Second
	}
	step := s.ledger.decideMoves(movable)
	now := s.options.Clock.Now()
	if step.reserves {
		if err := s.recordFreed(ctx, step.about); err != nil {
			log.FromContext(ctx).Error(err, "recording the hosts that moves free", "for", client.ObjectKeyFromObject(step.about))
			s.ledger.notRequested(client.ObjectKeyFromObject(step.about))
			step.request = nil
		}
	}
	for _, request := range append(step.request, step.renew...) {
		value := leaving.Eviction{At: now, For: request.graph.String(), MaxGPUs: request.most}.String()
		if err := s.annotate(ctx, request, &value); err != nil {
			log.FromContext(ctx).Error(err, "requesting a move", "pod", request.pod, "for", request.graph)
			s.ledger.notRequested(request.graph)
		}
	}
	for _, request := range step.withdraw {
		if err := s.annotate(ctx, request, nil); err != nil {
			log.FromContext(ctx).Error(err, "withdrawing a move, which ends by itself", "pod", request.pod, "for", request.graph)
		}
	}
	if step.about != nil {
		s.report(step.about, step.events)
		for _, e := range step.events {
			logger(ctx, step.about).Info("moving replicas to free a place", "event", e.reason, "note", e.note)
		}
	}
	s.queue.wakeUp(step.wake)
	return step.again
}

// recordFreed writes the hosts that moves free for a deployment into its GraphPlacement. A new leader reserves these hosts before it places
// the successors of moved replicas.
func (s *Scheduler) recordFreed(ctx context.Context, dgd *nvidiav1beta1.DynamoGraphDeployment) error {
	freed := s.ledger.freedFor(client.ObjectKeyFromObject(dgd))
	return retry.OnError(retry.DefaultRetry, changedMeanwhile, func() error {
		was, err := s.placements.of(ctx, dgd)
		if err != nil || was.record == nil || was.record.Freed.Equal(freed) {
			return err
		}
		now := was.record.Clone()
		now.Freed = freed
		return s.placements.write(ctx, dgd, was, now)
	})
}

// annotate sets the eviction annotation of a pod to value, or removes the annotation if value is nil. It ignores a pod that is gone.
func (s *Scheduler) annotate(ctx context.Context, request *moveRequest, value *string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": request.uid, "annotations": map[string]*string{leaving.AnnotationEviction: value},
	}})
	if err != nil {
		return err
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: request.pod.Namespace, Name: request.pod.Name}}
	if err := s.options.Moves.Patch(ctx, pod, client.RawPatch(types.MergePatchType, patch)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("writing the annotation %s of pod %s: %w", leaving.AnnotationEviction, request.pod, err)
	}
	return nil
}

// movable returns the observations of all deployments whose replicas may move.
func (c *objects) movable(ctx context.Context) (out []gang.Observation, err error) {
	list := &nvidiav1beta1.DynamoGraphDeploymentList{}
	if err := c.reader.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	for i := range list.Items {
		if !render.MayMove(&list.Items[i]) {
			continue
		}
		o, err := c.observe(ctx, &list.Items[i])
		if err != nil {
			return nil, err
		}
		out = append(out, o)
	}
	return out, nil
}
