// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Command sandbox runs a real control plane with simulated nodes and the operator: see docs/development.md. It is a tool of this repository and
// works inside a clone.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/trellis-k8s/trellis/internal/sandbox/command"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	cmd := command.New()
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	err := cmd.ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}
