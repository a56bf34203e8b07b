// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package leader

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// Reasons why a write is refused.
var (
	errNotElected = errors.New("this replica is not the leader")
	errReleased   = errors.New("the lease is released")
)

// Fence lets writes pass while the lease is valid.
type Fence struct {
	duration time.Duration
	clock    clock.PassiveClock
	start    time.Time

	mu sync.Mutex
	// renewed is the time at which the last renewal was sent; nil before the first renewal.
	renewed *instant
	// closed is the reason why no more writes may pass; nil while the fence is not closed.
	closed error
	// changed is closed at the next renewal and when the fence is closed.
	changed chan struct{}
	// lost is closed when another replica holds the lease.
	lost chan struct{}
}

// NewFence returns a fence for a lease with this duration. Writes fail until the lease is acquired.
func NewFence(duration time.Duration, clock clock.PassiveClock) *Fence {
	return &Fence{duration: duration, clock: clock, start: clock.Now(), changed: make(chan struct{}), lost: make(chan struct{})}
}

// instant is a point in time, measured by two clocks.
type instant struct {
	// monotonic continues while the process is paused, and is not affected when the system time is set.
	monotonic time.Duration
	// wall also continues while the machine is suspended.
	wall time.Time
}

// expired reports whether a lease that was renewed at this time has expired according to either clock.
func expired(renewed, now instant, duration time.Duration) bool {
	return now.monotonic-renewed.monotonic >= duration || now.wall.Sub(renewed.wall) >= duration
}

func (f *Fence) now() instant {
	now := f.clock.Now()
	return instant{monotonic: now.Sub(f.start), wall: now.Round(0)}
}

// Lost returns a channel that is closed when another replica holds the lease that this replica had. The process must then end.
func (f *Fence) Lost() <-chan struct{} { return f.lost }

// Err returns the reason why no more writes may pass; nil while the fence is not closed.
func (f *Fence) Err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.closed
}

// renew opens the fence until the lease expires, measured from the time at which the renewal was sent.
func (f *Fence) renew(sent instant) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed != nil {
		return
	}
	f.renewed = &sent
	f.wake()
}

// release closes the fence because this replica gives up the lease.
func (f *Fence) release() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.close(errReleased)
}

// replace closes the fence if this replica had the lease and the lease now names another holder.
func (f *Fence) replace(holder string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.renewed == nil || f.closed != nil {
		return
	}
	f.close(fmt.Errorf("leader election lost: the lease is held by %q", holder))
	close(f.lost)
}

func (f *Fence) close(why error) {
	if f.closed == nil {
		f.closed = why
		f.wake()
	}
}

func (f *Fence) wake() {
	close(f.changed)
	f.changed = make(chan struct{})
}

// pass returns nil if a write may be sent. While the lease is expired, pass waits until the elector renews the lease, the fence is closed
// or ctx ends.
func (f *Fence) pass(ctx context.Context) error {
	for {
		changed, err := f.check()
		if changed == nil {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("waiting for a renewal of the expired lease: %w", context.Cause(ctx))
		}
	}
}

// check returns a channel to wait on if the lease is expired. Otherwise it returns nil if a write may be sent, or an error.
func (f *Fence) check() (<-chan struct{}, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.closed != nil:
		return nil, f.closed
	case f.renewed == nil:
		return nil, errNotElected
	case expired(*f.renewed, f.now(), f.duration):
		return f.changed, nil
	}
	return nil, nil
}
