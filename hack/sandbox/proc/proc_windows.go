// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package proc

import "syscall"

func detached() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

// withhold does nothing: Windows programs do not inherit handles by default.
func withhold() {}
