// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package drain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/cli"
	"github.com/trellis-k8s/trellis/internal/leaving"
	"github.com/trellis-k8s/trellis/internal/render"
)

// LookEvery is the interval at which a command reads the replicas while it waits.
const LookEvery = 2 * time.Second

// endWithin bounds the time for the last writes of an interrupted command.
const endWithin = 10 * time.Second

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

// Observe lists the pods of replicas in all namespaces, and their scaling groups.
func Observe(ctx context.Context, c client.Client, nodes []string) (Observed, error) {
	pods, groups := &corev1.PodList{}, &trellisv1alpha1.ScalingGroupList{}
	if err := c.List(ctx, pods, client.HasLabels{render.LabelScalingGroup}); err != nil {
		return Observed{}, cli.Explain(err, "listing the pods of inference graphs")
	}
	if err := c.List(ctx, groups); err != nil {
		return Observed{}, cli.Explain(err, "listing the scaling groups")
	}
	return Observed{Nodes: nodes, Pods: pods.Items, Groups: groups.Items}, nil
}

// drain cordons the nodes, marks them with the annotation [leaving.AnnotationDrain], waits until all replicas that the operator moves have
// left the nodes, and removes the annotation.
func (o *options) drain(ctx context.Context, c client.Client, nodes []string) error {
	failed := o.name(ctx, c, nodes)
	if failed == nil {
		failed = Wait(ctx, &o.Output, o.every, func() (cli.Report, int, error) {
			observed, err := Observe(ctx, c, nodes)
			report := Build(observed)
			return report, report.Moving(), err
		})
	}
	// Remove the marks also after an interruption: without the marks, no further replica moves.
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), endWithin)
	defer cancel()
	unnamed := o.unname(ending, c, nodes)
	if ctx.Err() != nil && failed != nil {
		fmt.Fprintln(o.ErrOut, "interrupted: the nodes stay cordoned, and replicas that have not moved stay; kubectl uncordon opens the nodes")
		return errors.Join(cli.Exit(1), unnamed)
	}
	return errors.Join(failed, unnamed)
}

// name cordons all nodes before it marks the first node for draining, so that no replica moves from one of these nodes to another.
func (o *options) name(ctx context.Context, c client.Client, nodes []string) error {
	if err := Cordon(ctx, c, nodes, o.Out); err != nil {
		return err
	}
	mark := map[string]any{"annotations": map[string]any{leaving.AnnotationDrain: time.Now().UTC().Format(time.RFC3339)}}
	for _, name := range nodes {
		if err := patchNode(ctx, c, name, map[string]any{"metadata": mark}); err != nil {
			return err
		}
	}
	return nil
}

// Cordon makes the nodes unschedulable, and writes the name of each cordoned node to out.
func Cordon(ctx context.Context, c client.Client, nodes []string, out io.Writer) error {
	for _, name := range nodes {
		if err := patchNode(ctx, c, name, map[string]any{"spec": map[string]any{"unschedulable": true}}); err != nil {
			return err
		}
		if _, err := fmt.Fprintf(out, "node/%s cordoned\n", name); err != nil {
			return err
		}
	}
	return nil
}

// unname removes the marks from the nodes. It ignores nodes that no longer exist.
func (o *options) unname(ctx context.Context, c client.Client, nodes []string) error {
	var errs []error
	for _, name := range nodes {
		patch := map[string]any{"metadata": map[string]any{"annotations": map[string]any{leaving.AnnotationDrain: nil}}}
		if err := patchNode(ctx, c, name, patch); !apierrors.IsNotFound(err) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func patchNode(ctx context.Context, c client.Client, name string, patch map[string]any) error {
	raw, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := c.Patch(ctx, node, client.RawPatch(types.MergePatchType, raw)); err != nil {
		return fmt.Errorf("changing node %s: %w", name, err)
	}
	return nil
}

// Wait calls look once per interval, and shows the returned report whenever its text has changed. It ends when look returns 0 moving
// replicas.
func Wait(ctx context.Context, o *cli.Output, every time.Duration, look func() (report cli.Report, moving int, err error)) error {
	shown := ""
	for {
		report, moving, err := look()
		if err != nil {
			return err
		}
		if now := report.Text(o.Page()); now != shown {
			shown = now
			if err := o.Show(report); err != nil {
				return err
			}
		}
		if moving == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(every):
		}
	}
}
