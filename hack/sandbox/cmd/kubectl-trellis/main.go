// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Command kubectl-trellis is the plugin that make build builds: cmd/kubectl-trellis with the additional command kubectl trellis sandbox,
// which needs a clone of the repository.
package main

import (
	"os"

	"github.com/trellis-k8s/trellis/hack/sandbox/internal/command"
	"github.com/trellis-k8s/trellis/internal/cli/plugin"
)

func main() {
	os.Exit(plugin.Run(command.New()))
}
