// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build release

package main

import "github.com/spf13/cobra"

// addTools adds nothing to a released plugin.
func addTools(*cobra.Command) {}
