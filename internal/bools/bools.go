// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package bools converts bools to numbers and orders them, which package cmp does not.
package bools

// Int returns 1 for true and 0 for false.
func Int(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Compare orders false before true.
func Compare(a, b bool) int { return Int(a) - Int(b) }
