// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package leader

import (
	"context"
	"fmt"
	"os"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// Lock is a lease lock whose reads and writes update a fence.
type Lock struct {
	*resourcelock.LeaseLock
	fence *Fence
}

var _ resourcelock.Interface = &Lock{}

// NewLock returns a lock on a lease. The lock's own requests bypass the fence.
func NewLock(config *rest.Config, name types.NamespacedName, fence *Fence) (*Lock, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	config = rest.AddUserAgent(rest.CopyConfig(config), "leader-election")
	config.Timeout = RequestTimeout
	leases, err := coordinationv1client.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the cluster: %w", err)
	}
	return &Lock{fence: fence, LeaseLock: &resourcelock.LeaseLock{
		LeaseMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}, Client: leases,
		LockConfig: resourcelock.ResourceLockConfig{Identity: host + "_" + string(uuid.NewUUID())},
	}}, nil
}

// RecordTo sets the recorder for events of the election.
func (l *Lock) RecordTo(recorder resourcelock.EventRecorder) { l.LockConfig.EventRecorder = recorder }

// Get implements [resourcelock.Interface]. Once the lease is lost, it does not read the lease again.
func (l *Lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	select {
	case <-l.fence.Lost():
		return nil, nil, l.fence.Err()
	default:
	}
	record, raw, err := l.LeaseLock.Get(ctx)
	if err == nil && record.HolderIdentity != l.Identity() {
		l.fence.replace(record.HolderIdentity)
	}
	return record, raw, err
}

// Create implements [resourcelock.Interface].
func (l *Lock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.write(record, func() error { return l.LeaseLock.Create(ctx, record) })
}

// Update implements [resourcelock.Interface].
func (l *Lock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.write(record, func() error { return l.LeaseLock.Update(ctx, record) })
}

// write sends a record. Once a process has released or lost the lease, it never acquires the lease again.
func (l *Lock) write(record resourcelock.LeaderElectionRecord, send func() error) error {
	if record.HolderIdentity != l.Identity() {
		l.fence.release()
		return send()
	}
	if err := l.fence.Err(); err != nil {
		return err
	}
	sent := l.fence.now()
	if err := send(); err != nil {
		return err
	}
	l.fence.renew(sent)
	return nil
}
