// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package plugin is the root command of kubectl trellis, which cmd/kubectl-trellis runs.
package plugin

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/trellis-k8s/trellis/internal/cli"
	"github.com/trellis-k8s/trellis/internal/cli/drain"
	"github.com/trellis-k8s/trellis/internal/cli/explain"
	"github.com/trellis-k8s/trellis/internal/cli/maps"
	"github.com/trellis-k8s/trellis/internal/cli/plan"
	"github.com/trellis-k8s/trellis/internal/cli/queue"
	"github.com/trellis-k8s/trellis/internal/cli/repack"
	"github.com/trellis-k8s/trellis/internal/cli/rollout"
	"github.com/trellis-k8s/trellis/internal/cli/status"
	"github.com/trellis-k8s/trellis/internal/cli/suggest"
	"github.com/trellis-k8s/trellis/internal/cli/tree"
	"github.com/trellis-k8s/trellis/internal/cli/version"
)

// Run executes the plugin with the arguments of the process, until it ends or is interrupted. It returns an exit code as in docs/cli.md.
// tools are further commands that the help does not list.
func Run(tools ...*cobra.Command) (code int) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := NewCommand(genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}, tools...).ExecuteContext(ctx)
	code, tell := cli.ExitCode(err)
	if tell {
		fmt.Fprintln(os.Stderr, "Error:", err)
	}
	return code
}

// NewCommand returns the root command with its subcommands, and with tools, which the help does not list.
func NewCommand(streams genericiooptions.IOStreams, tools ...*cobra.Command) *cobra.Command {
	log.SetLogger(logr.New(log.NullLogSink{})) // otherwise clients warn after half a minute about a missing logger
	cmd := &cobra.Command{
		Use:           "kubectl-trellis",
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl trellis"},
		Short:         "Inspect, try out and explain topology-aware placement of inference graphs",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	cmd.AddCommand(
		drain.NewCommand(streams),
		explain.NewCommand(streams),
		maps.NewCommand(streams),
		plan.NewCommand(streams),
		queue.NewCommand(streams),
		repack.NewCommand(streams),
		rollout.NewCommand(streams),
		status.NewCommand(streams),
		suggest.NewCommand(streams),
		tree.NewCommand(streams),
		version.NewCommand(streams),
	)
	for _, tool := range tools {
		tool.Hidden = true
		cmd.AddCommand(tool)
	}
	cmd.SetOut(streams.Out)
	cmd.SetErr(streams.ErrOut)
	cmd.SetFlagErrorFunc(cli.FlagError)
	cli.SetHelp(cmd)
	cli.RefuseUnknown(cmd)
	return cmd
}
