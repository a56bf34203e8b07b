// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package filelock provides file locks between processes. The kernel releases the lock of a process that ends.
package filelock

import (
	"context"
	"fmt"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// Lock waits for the lock on a file, which it creates if necessary, and returns a function that releases the lock. Before it waits it
// calls waiting once, unless that is nil. The holder may remove the file; a waiting process then locks the new file with that name.
func Lock(ctx context.Context, path string, waiting func()) (unlock func(), err error) {
	var locked *os.File
	reported := false
	err = wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(context.Context) (bool, error) {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return false, err
		}
		got, err := try(f)
		if err == nil && got && samePath(f, path) {
			locked = f
			return true, nil
		}
		f.Close()
		if !got && !reported && waiting != nil {
			reported = true
			waiting()
		}
		return false, err
	})
	if err != nil {
		return nil, fmt.Errorf("locking %s: %w", path, err)
	}
	return func() { locked.Close() }, nil
}

// samePath reports whether an open file still is the file at this path.
func samePath(f *os.File, path string) bool {
	mine, err := f.Stat()
	if err != nil {
		return false
	}
	theirs, err := os.Stat(path)
	return err == nil && os.SameFile(mine, theirs)
}
