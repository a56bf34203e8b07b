// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package filelock lets one process at a time do something. The kernel drops the lock with the process that holds it.
package filelock

import (
	"context"
	"fmt"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// Lock waits for the lock on a file, which it makes, and returns how to give it back. waiting, when not nil, is called once before it
// waits. The file may be removed while it is locked; a process that waited for it then locks the new file of that name.
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

// samePath reports whether the file still is the one of that name.
func samePath(f *os.File, path string) bool {
	mine, err := f.Stat()
	if err != nil {
		return false
	}
	theirs, err := os.Stat(path)
	return err == nil && os.SameFile(mine, theirs)
}
