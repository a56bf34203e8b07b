// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package proc

import "syscall"

// namespaced starts the program as the first process of new namespaces; all processes in them end with it.
func namespaced(attr *syscall.SysProcAttr) {
	attr.Cloneflags = syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC
}
