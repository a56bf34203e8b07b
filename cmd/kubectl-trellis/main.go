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

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/trellis-k8s/trellis/internal/cli"
	"github.com/trellis-k8s/trellis/internal/cli/explain"
	"github.com/trellis-k8s/trellis/internal/cli/maps"
	"github.com/trellis-k8s/trellis/internal/cli/plan"
	"github.com/trellis-k8s/trellis/internal/cli/queue"
	"github.com/trellis-k8s/trellis/internal/cli/status"
	"github.com/trellis-k8s/trellis/internal/cli/suggest"
	"github.com/trellis-k8s/trellis/internal/cli/tree"
	"github.com/trellis-k8s/trellis/internal/cli/version"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := newRootCommand(genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}).ExecuteContext(ctx)
	stop()
	code, tell := cli.ExitCode(err)
	if tell {
		fmt.Fprintln(os.Stderr, "Error:", err)
	}
	os.Exit(code)
}

func newRootCommand(streams genericiooptions.IOStreams) *cobra.Command {
	log.SetLogger(logr.New(log.NullLogSink{})) // otherwise clients complain after half a minute that there is none
	cmd := &cobra.Command{
		Use:           "kubectl-trellis",
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl trellis"},
		Short:         "Look at, try out and explain topology-aware placement of inference graphs",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	cmd.AddCommand(
		explain.NewCommand(streams),
		maps.NewCommand(streams),
		plan.NewCommand(streams),
		queue.NewCommand(streams),
		status.NewCommand(streams),
		suggest.NewCommand(streams),
		tree.NewCommand(streams),
		version.NewCommand(streams),
	)
	addTools(cmd)
	cmd.SetOut(streams.Out)
	cmd.SetErr(streams.ErrOut)
	cmd.SetFlagErrorFunc(cli.FlagError)
	cli.SetHelp(cmd)
	cli.RefuseUnknown(cmd)
	return cmd
}
