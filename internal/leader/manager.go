// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package leader

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// Time limits of the election, equal to the defaults of controller-runtime. RequestTimeout bounds a single request for the lease.
const (
	LeaseDuration  = 15 * time.Second
	RenewDeadline  = 10 * time.Second
	RetryPeriod    = 2 * time.Second
	RequestTimeout = RenewDeadline / 2
)

// Manager is a manager that ends when the lease is lost.
type Manager struct {
	manager.Manager
	Fence *Fence
}

// Start implements [manager.Manager]. When the lease is lost, Start does not wait for running work, because the fence refuses the writes of
// that work.
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
