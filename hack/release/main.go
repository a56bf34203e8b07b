// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Command release builds the artefacts of a release without a container engine: images, manifests, chart, plugin, bills of materials and
// checksums. make prepare-release, make release and make push run it.
//
// It builds from a clean clone of the commit, tagged with the version, so that neither uncommitted files nor the tags of the user's clone
// affect the result. Every time stamp is the commit's. Two builds of one commit with one Go toolchain are identical, byte by byte.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command().ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func command() *cobra.Command {
	cmd := &cobra.Command{Use: "release", Short: "Build and push releases", SilenceUsage: true, SilenceErrors: true}
	cmd.AddCommand(prepareCommand(), buildCommand(), pushCommand())
	return cmd
}

func prepareCommand() *cobra.Command {
	var repository, version, date string
	cmd := &cobra.Command{
		Use:   "prepare",
		Short: "Have the files of the repository name a version, the changelog's unreleased changes included",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			written, err := prepare(repository, version, date)
			for _, name := range written {
				fmt.Fprintln(cmd.OutOrStdout(), name)
			}
			return err
		},
	}
	cmd.Flags().StringVar(&repository, "repository", "../..", "the clone whose files are changed")
	cmd.Flags().StringVar(&version, "version", "", "full semantic version with a leading v")
	cmd.Flags().StringVar(&date, "date", time.Now().UTC().Format(time.DateOnly), "date of the release")
	return cmd
}

func buildCommand() *cobra.Command {
	o := options{}
	only := ""
	cmd := &cobra.Command{
		Use:   "build",
		Short: "Write everything a release ships into a folder",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if only != "" {
				o.platforms = strings.Split(only, ",")
			}
			return build(cmd.Context(), o, func(format string, args ...any) {
				fmt.Fprintf(cmd.ErrOrStderr(), format+"\n", args...)
			})
		},
	}
	cmd.Flags().StringVar(&o.repository, "repository", "../..", "the clone")
	cmd.Flags().StringVar(&o.ref, "ref", "HEAD", "the commit of the clone that is released")
	cmd.Flags().StringVar(&o.version, "version", "", "semantic version with a leading v")
	cmd.Flags().StringVar(&o.out, "out", "../../dist", "folder for the results; it must be empty or missing")
	cmd.Flags().BoolVar(&o.withoutEvidence, "without-evidence", false, "make a full release although long runs are older than it, for a test")
	cmd.Flags().StringVar(&only, "only", "", "build these platforms only, such as linux/amd64, for a test")
	return cmd
}

func pushCommand() *cobra.Command {
	var layout string
	cmd := &cobra.Command{
		Use:   "push IMAGE:TAG",
		Short: "Push the images of a build to a registry",
		Long: "Pushes the images of all platforms under one name and prints that name with its digest.\n" +
			"Credentials are those of the docker configuration file; for ghcr.io also GITHUB_TOKEN.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			pushed, err := push(cmd.Context(), layout, args[0])
			if err == nil {
				fmt.Fprintln(cmd.OutOrStdout(), pushed)
			}
			return err
		},
	}
	cmd.Flags().StringVar(&layout, "layout", "../../dist/"+manager, "folder with the OCI layout")
	return cmd
}
