// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Command evidence lists and writes docs/evidence.yaml. The Makefile runs it in the root of the repository.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/trellis-k8s/trellis/hack/evidence"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command().ExecuteContext(ctx)
	stop()
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, "evidence:", err)
	if failed := (*exec.ExitError)(nil); errors.As(err, &failed) {
		os.Exit(max(failed.ExitCode(), 1))
	}
	os.Exit(1)
}

func command() *cobra.Command {
	cmd := &cobra.Command{Use: "evidence", Short: "Results of long runs, and the commits they are of", SilenceUsage: true, SilenceErrors: true}
	clone := cmd.PersistentFlags().String("clone", ".", "the clone of the repository")
	run := evidence.Recording{Out: os.Stdout, ErrOut: os.Stderr, Now: time.Now}
	record := &cobra.Command{
		Use:   "run NAME [--seed SEED] [--other WHY] -- COMMAND [ARGUMENT...]",
		Short: "Run a command, and write the row of this name if it succeeds",
		Args:  cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			run.Clone, run.Name, run.Command = *clone, args[0], args[1:]
			return evidence.Record(cmd.Context(), run)
		},
	}
	record.Flags().StringVar(&run.Seed, "seed", "", "seed of the run (default: that which Ginkgo prints)")
	record.Flags().StringVar(&run.Other, "other", "", "what makes this another run than that of the row; it is then not recorded")
	cmd.AddCommand(record, &cobra.Command{
		Use: "list", Short: "List the rows, and what has changed since", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f, err := evidence.Load(*clone)
			if err != nil {
				return err
			}
			ages, err := f.Ages(cmd.Context(), *clone, "HEAD")
			if err != nil {
				return err
			}
			return list(cmd.OutOrStdout(), ages)
		},
	}, &cobra.Command{
		Use: "pages", Short: "Have the pages say what the rows have", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			f, err := evidence.Load(*clone)
			if err != nil {
				return err
			}
			return f.QuoteAll(*clone)
		},
	})
	return cmd
}

// list prints a row for each run: whether it is evidence for the checked out commit, and if not, why.
func list(out io.Writer, ages []evidence.Age) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "RUN\tCURRENT\tDATE\tCOMMIT\tSEED\tWHAT IS MISSING\tCOMMAND")
	for _, age := range ages {
		current, missing := "yes", age.Problem()
		if missing != "" {
			current = "NO"
		}
		commit := age.Commit
		if len(commit) > 8 {
			commit = commit[:8]
		}
		fmt.Fprintln(w, strings.Join([]string{
			age.Name, current, dash(age.Date), dash(commit), dash(age.Seed), dash(missing), age.Command,
		}, "\t"))
	}
	return w.Flush()
}

func dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
