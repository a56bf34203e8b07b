// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Command kubectl-trellis is the plugin behind kubectl trellis.
package main

import (
	"os"

	"github.com/trellis-k8s/trellis/internal/cli/plugin"
)

func main() { os.Exit(plugin.Run()) }
