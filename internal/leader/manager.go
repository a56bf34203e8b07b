// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package leader

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// Times of the election, which are the defaults of controller-runtime. RequestTimeout bounds a single request about the lease.
const (
	LeaseDuration  = 15 * time.Second
	RenewDeadline  = 10 * time.Second
	RetryPeriod    = 2 * time.Second
	RequestTimeout = RenewDeadline / 2
)

// Manager ends when the lease is lost.
type Manager struct {
	manager.Manager
	Fence *Fence
}

// Start implements [manager.Manager]. It does not wait for what still runs when the lease is lost: the fence lets no write pass.
func (m Manager) Start(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- m.Manager.Start(ctx) }()
	select {
	case err := <-ended:
		return err
	case <-m.Fence.Lost():
		return m.Fence.Err()
	}
}
