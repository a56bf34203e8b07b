// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package proc

import "syscall"

// namespaced does nothing: only Linux has namespaces.
func namespaced(*syscall.SysProcAttr) {}
