// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/trellis-k8s/trellis/hack/sandbox"
	"github.com/trellis-k8s/trellis/hack/sandbox/internal/binaries"
	"github.com/trellis-k8s/trellis/hack/sandbox/peers"
	"github.com/trellis-k8s/trellis/hack/sandbox/progress"
	"github.com/trellis-k8s/trellis/internal/provider/kai"
	"github.com/trellis-k8s/trellis/internal/render"
)

// useProvider sets the sandbox's provider as the default provider of the operator, and adds the peers that the provider
// needs and those of --with.
func useProvider(opts *sandbox.Options, with ...string) error {
	if !slices.Contains(sandbox.Providers, opts.Provider) {
		return nil // sandbox.Up refuses it
	}
	if flag := providerFlag(opts.Provider); flag != "" {
		opts.Manager.Args = append(opts.Manager.Args, flag)
	}
	more, err := peers.Additional(with...)
	if err != nil {
		return fmt.Errorf("--with %w", err)
	}
	names := slices.Concat(peers.Needed(opts.Provider), more)
	if len(names) == 0 {
		return nil
	}
	root, err := binaries.FindRoot(".")
	if err != nil {
		return err
	}
	set, err := peers.Find(root, names...)
	if err != nil {
		return fmt.Errorf("--provider %s: %w", opts.Provider, err)
	}
	opts.Peers = set.Beside(opts.Progress)
	opts.Manager.Args = append(opts.Manager.Args, peers.OperatorFlags(names...)...)
	return nil
}

// newPeersCommand is for the Makefile, which skips the tests with real peers when peers are missing on the machine.
func newPeersCommand() *cobra.Command {
	clone := false
	cmd := &cobra.Command{
		Use: "peers [NAME...]",
		Short: "Print the versions of these peers (default: those of the variable PEERS, or all), or which sources and programs of theirs " +
			"are missing",
		Hidden: true,
		RunE: func(cmd *cobra.Command, names []string) error {
			root, err := binaries.FindRoot(".")
			if err != nil {
				return err
			}
			if len(names) == 0 {
				names = peers.Chosen()
			}
			if clone {
				if err := peers.Clone(cmd.Context(), progress.To(os.Stderr), names...); err != nil {
					return err
				}
			}
			set, err := peers.Find(root, names...)
			if err != nil {
				return err
			}
			for _, version := range set.Versions(cmd.Context()) {
				fmt.Fprintln(cmd.OutOrStdout(), version)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&clone, "clone", false, "clone the pinned commits of sources that are not there, unless PEERS_SRC is set")
	return cmd
}

// providerFlag is the operator's --provider flag for the provider of a sandbox. It is "" for Gates, the operator's own default, and for
// LeaderWorkerSet, which is not a provider of the operator.
func providerFlag(provider sandbox.Provider) string {
	if provider == sandbox.Gates || provider == sandbox.LeaderWorkerSet {
		return ""
	}
	return "--provider=" + string(provider)
}

// hint says what a user must know about the provider.
func hint(opts sandbox.Options) string {
	text := ""
	switch opts.Provider {
	case sandbox.LeaderWorkerSet:
		return fmt.Sprintf("multinode components are made by LeaderWorkerSets in deployments with the annotation %s: %s\n",
			render.AnnotationWorkload, opts.Provider)
	case sandbox.KAI, sandbox.Grove:
		text = fmt.Sprintf("pods are in KAI's queue %s unless their deployment names another\n", kai.DefaultQueue)
	}
	if flag := providerFlag(opts.Provider); flag != "" && !opts.Operator {
		text += fmt.Sprintf("start your operator with %s\n", flag)
	}
	return text
}
