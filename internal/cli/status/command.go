// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/internal/cli"
	"github.com/trellis-k8s/trellis/internal/cli/text"
)

// options are the user's arguments and flags.
type options struct {
	cli.Output
	watch, forever bool
	timeout        time.Duration
}

// NewCommand returns kubectl trellis status.
func NewCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := &options{Output: cli.NewOutput(streams)}
	cmd := &cobra.Command{
		Use:   "status (NAME | dgd NAME | dgd/NAME)",
		Short: "Show how far an inference graph has come, and what it waits for",
		Long: "Shows each component of a DynamoGraphDeployment: ready and wanted replicas, how many run the current revision, where they sit, " +
			"and what they wait for.\n" +
			"With --watch it follows every change and ends by itself, with exit code 0, when the graph is ready and fully updated.",
		Example: "  kubectl trellis status dgd/my-llm\n" +
			"  kubectl trellis status dgd/my-llm --watch --timeout 30m && ./run-benchmark\n" +
			"  kubectl trellis status dgd/my-llm --watch --forever -o json | jq .services",
		Args:              cli.OneObject,
		ValidArgsFunction: o.CompleteObject(false, cli.Graph),
		RunE:              func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args) },
	}
	o.AddFlags(cmd, "; with --watch, one JSON object a line")
	cmd.Flags().BoolVarP(&o.watch, "watch", "w", false, "follow changes until the graph is ready and fully updated")
	cmd.Flags().BoolVar(&o.forever, "forever", false, "with --watch: keep watching after the graph is ready and fully updated")
	cmd.Flags().DurationVar(&o.timeout, "timeout", 0, "with --watch: give up after this time, e.g. 30m (default: never)")
	return cmd
}

func (o *options) run(ctx context.Context, args []string) error {
	name, err := cli.GraphName(args...)
	if err = errors.Join(err, o.Check()); err != nil {
		return err
	}
	switch {
	case !o.watch && (o.forever || o.timeout != 0):
		return errors.New("--forever and --timeout go with --watch")
	case o.timeout < 0:
		return fmt.Errorf("--timeout %s: want a positive duration, e.g. 30m", o.timeout)
	}
	c, namespace, err := cli.NewClient(o.Config)
	if err != nil {
		return err
	}
	key := client.ObjectKey{Namespace: namespace, Name: name}
	var observed Observed
	err = o.During("reading the deployment", func() (err error) {
		observed, err = Read(ctx, c, key)
		return err
	})
	if err != nil {
		return err
	}
	if o.watch {
		observed.Operator.Warn(o.ErrOut)
		return o.follow(ctx, key, observed)
	}
	return observed.Operator.Show(&o.Output, Build(observed))
}

func (o *options) follow(ctx context.Context, key client.ObjectKey, first Observed) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if o.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.timeout)
		defer cancel()
	}
	config, err := o.Config.ToRESTConfig()
	if err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	observations, err := Watch(ctx, config, key, first)
	if err != nil {
		return err
	}
	return Follow(ctx, observations, o.show(), o.forever)
}

// show returns the function that shows reports: as objects for programs, as a table that is redrawn on a terminal, and otherwise as lines.
func (o *options) show() Show {
	if o.ForPrograms() {
		return func(r Status, _ *Status) error { return o.ShowNext(r) }
	}
	if out, ok := o.Out.(*os.File); ok && term.IsTerminal(int(out.Fd())) { //nolint:gosec // a file descriptor is small
		return func(r Status, before *Status) error {
			return redraw(o.Out, r, before, o.Page())
		}
	}
	return func(r Status, before *Status) error { return log(o.Out, r, before, time.Now()) }
}

// redraw draws the table over the previous table.
func redraw(out io.Writer, r Status, before *Status, p text.Page) error {
	over := ""
	if before != nil {
		rows := 0
		for _, line := range strings.Split(strings.TrimSuffix(before.Text(p), "\n"), "\n") {
			rows += max(1, (text.Width(line)+p.Columns-1)/p.Columns)
		}
		over = fmt.Sprintf("\x1b[%dA\x1b[J", rows)
	}
	_, err := fmt.Fprint(out, over+text.Visible(r.Text(p)))
	return err
}

// log writes each change as a line.
func log(out io.Writer, r Status, before *Status, now time.Time) error {
	for _, line := range r.Changes(before) {
		if _, err := fmt.Fprintf(out, "%s %s\n", now.Format(time.TimeOnly), text.Visible(line)); err != nil {
			return err
		}
	}
	return nil
}
