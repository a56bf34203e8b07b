// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package proc

import "syscall"

// namespaced has a program started as the first process of namespaces of its own, with which all processes end that it starts.
func namespaced(attr *syscall.SysProcAttr) {
	attr.Cloneflags = syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC
}
