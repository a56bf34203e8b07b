// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package filelock

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := Lock(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	waits, locked := make(chan struct{}), make(chan error, 1)
	go func() {
		second, err := Lock(t.Context(), path, func() { close(waits) })
		if err == nil {
			second()
		}
		locked <- err
	}()
	<-waits
	select {
	case err := <-locked:
		t.Fatalf("locked twice: %v", err)
	default:
	}
	unlock()
	if err := <-locked; err != nil {
		t.Fatal(err)
	}
}

// The holder may remove the file; a process that waited must not hold a lock that no other can see.
func TestLockOfARemovedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := Lock(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	waits, locked := make(chan struct{}), make(chan error, 1)
	go func() {
		_, err := Lock(t.Context(), path, func() { close(waits) })
		locked <- err
	}()
	<-waits
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	unlock()
	if err := <-locked; err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := Lock(ctx, path, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a third one got the lock: %v", err)
	}
}
