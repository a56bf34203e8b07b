// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package proc

import "syscall"

func detached() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

// withhold has nothing to do: handles are inherited only where that is asked for.
func withhold() {}
