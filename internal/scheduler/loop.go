// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"
)

// NeedLeaderElection returns true, because only one loop may release pods.
func (s *Scheduler) NeedLeaderElection() bool { return true }

// Start runs the loop until ctx ends. It plans nothing before it has seen every node and pod.
func (s *Scheduler) Start(ctx context.Context) error {
	ctx = log.IntoContext(ctx, log.FromContext(ctx).WithName("scheduler"))
	if err := s.watch(ctx); err != nil {
		return err
	}
	if err := s.recoverAll(ctx); err != nil {
		return err
	}
	running.Store(s)
	defer running.CompareAndSwap(s, nil)
	for {
		s.wakeFreed()
		due, next := s.queue.take(s.options.Clock.Now())
		next = min(next, s.expireHolds(), s.freePlaces(ctx))
		s.round(ctx, due)
		if ctx.Err() == nil && (len(due) > 0 || s.line.Len() > 0) {
			continue
		}
		timer := s.options.Clock.NewTimer(next)
		select {
		case <-ctx.Done():
			s.writers.finish()
			return nil
		case <-s.queue.signal:
		case <-timer.C():
		}
		timer.Stop()
	}
}

// expireHolds ends the holds and domain reservations whose time is over, and returns the time until the next hold ends.
func (s *Scheduler) expireHolds() time.Duration {
	next, w := s.ledger.expire()
	s.queue.wakeUp(w)
	return next
}
