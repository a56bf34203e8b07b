// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Command kubectl-trellis is the plugin behind kubectl trellis.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := newRootCommand().ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

func newRootCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:           "kubectl-trellis",
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl trellis"},
		Short:         "Look at, try out and explain topology-aware placement of inference graphs",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	cmd.AddCommand(
		newSandboxCommand(),
		newGraphStatusCommand(),
		newTreeCommand(),
	)
	return cmd
}
