// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package drain

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/internal/cli"
	"github.com/trellis-k8s/trellis/internal/cli/live"
	"github.com/trellis-k8s/trellis/internal/leaving"
)

type options struct {
	cli.Output
	dryRun bool
	every  time.Duration
}

// NewCommand returns kubectl trellis drain.
func NewCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := &options{Output: cli.NewOutput(streams), every: LookEvery}
	cmd := &cobra.Command{
		Use:   "drain NODE...",
		Short: "Cordon nodes and have the replicas of inference graphs move away, each restarting once",
		Long: "Cordons the nodes, and waits until the operator has moved all replicas of inference graphs that have pods on them:\n" +
			"a successor is created on other nodes, and when it serves, the replica is deleted as a unit. No replica is placed on any\n" +
			"of the nodes. Name all nodes that are to be drained together: then no replica moves twice. Other pods stay: drain them\n" +
			"with kubectl drain afterwards. Interrupted, the command leaves the nodes cordoned, and replicas that have not moved stay.",
		Example: "  kubectl trellis drain node-1 node-2 --dry-run\n  kubectl trellis drain node-1 node-2",
		Args:    cobra.MinimumNArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args) },
	}
	o.AddFlags(cmd, "")
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "list the replicas that would move, and change nothing")
	return cmd
}

func (o *options) run(ctx context.Context, nodes []string) error {
	if err := o.Check(); err != nil {
		return err
	}
	c, _, err := cli.NewClient(o.Config)
	if err != nil {
		return err
	}
	slices.SortFunc(nodes, cli.Natural)
	nodes = slices.Compact(nodes)
	if err := exist(ctx, c, nodes); err != nil {
		return err
	}
	observed, err := Observe(ctx, c, nodes)
	if err != nil {
		return err
	}
	if o.dryRun {
		return o.Show(Build(observed))
	}
	operator, err := live.ReadHeartbeat(ctx, c)
	if err != nil {
		return err
	}
	operator.Warn(o.ErrOut)
	return o.drain(ctx, c, nodes)
}

// exist returns an error that names the nodes that do not exist. It must be called before any node is changed.
func exist(ctx context.Context, c client.Client, nodes []string) error {
	var errs []error
	for _, name := range nodes {
		if err := c.Get(ctx, client.ObjectKey{Name: name}, &corev1.Node{}); apierrors.IsNotFound(err) {
			errs = append(errs, fmt.Errorf("node %s not found; list the nodes with kubectl get nodes", name))
		} else if err != nil {
			errs = append(errs, cli.Explain(err, "reading node "+name))
		}
	}
	return errors.Join(errs...)
}

// drain cordons the nodes, marks them with the annotation [leaving.AnnotationDrain], waits until all replicas that the operator moves have
// left the nodes, and removes the annotation. It cordons all nodes before it marks the first node, so that no replica moves from one of
// these nodes to another.
func (o *options) drain(ctx context.Context, c client.Client, nodes []string) error {
	cordoned, failed := Cordon(ctx, c, nodes, o.progress())
	if failed == nil {
		failed = mark(ctx, c, nodes, time.Now().UTC().Format(time.RFC3339))
	}
	if failed == nil {
		failed = o.wait(ctx, c, nodes)
	}
	// Remove the marks also after an interruption: without the marks, no further replica moves.
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), EndWithin)
	defer cancel()
	unmarked := mark(ending, c, nodes, nil)
	if failed == nil {
		return unmarked
	}
	return Ended(ctx, o.ErrOut, cordoned, failed, unmarked)
}

// progress returns the stream for lines that are not part of a report. In formats for programs, the standard output has only reports.
func (o *options) progress() io.Writer {
	if o.ForPrograms() {
		return o.ErrOut
	}
	return o.Out
}

// wait shows the replicas on the nodes until no replica is left that the operator moves.
func (o *options) wait(ctx context.Context, c client.Client, nodes []string) error {
	waiting := Waiting{Output: &o.Output, Every: o.every, Show: o.ShowNext}
	return waiting.Until(ctx, func() (cli.Report, int, error) {
		observed, err := Observe(ctx, c, nodes)
		report := Build(observed)
		return report, report.Moving(), errors.Join(err, observed.Cordoned())
	})
}

// mark writes the annotation of a drain to the nodes; nil removes it. It ignores nodes that no longer exist.
func mark(ctx context.Context, c client.Client, nodes []string, value any) error {
	var errs []error
	for _, name := range nodes {
		patch := map[string]any{"metadata": map[string]any{"annotations": map[string]any{leaving.AnnotationDrain: value}}}
		if err := patchNode(ctx, c, name, patch); client.IgnoreNotFound(err) != nil {
			errs = append(errs, cli.Explain(err, "annotating node "+name))
		}
	}
	return errors.Join(errs...)
}
