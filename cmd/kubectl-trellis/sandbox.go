// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !release

package main

import (
	"github.com/spf13/cobra"

	"github.com/trellis-k8s/trellis/internal/sandbox/command"
)

// addTools adds the sandbox, for those who call it by the plugin in a clone. Releases are built without it: it needs the clone.
func addTools(cmd *cobra.Command) {
	sandbox := command.New()
	sandbox.Hidden = true
	cmd.AddCommand(sandbox)
}
