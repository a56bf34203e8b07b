// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package proc

import (
	"os"
	"strconv"
	"syscall"
)

func detached() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// withhold closes the inherited files of this program for the programs that it starts. Those run on, and would keep the files open: the
// lock of a caller (flock FILE make sandbox-up), or the pipe of a script that waits for its end.
func withhold() {
	entries, err := os.ReadDir("/dev/fd")
	if err != nil {
		return // a system that does not list them
	}
	for _, e := range entries {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd > syscall.Stderr {
			syscall.CloseOnExec(fd)
		}
	}
}
