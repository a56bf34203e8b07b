// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/internal/cli"
	"github.com/trellis-k8s/trellis/internal/rollout"
)

// NewCommand returns kubectl trellis rollout.
func NewCommand(streams genericiooptions.IOStreams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rollout",
		Short: "Show, pause, resume, abort and undo the update of an inference graph, and restart it",
		Long: "Shows the generations of the workers of a DynamoGraphDeployment, and controls the update from one to the next by annotations " +
			"of the deployment. Requests restarts.",
	}
	cmd.AddCommand(newStatus(streams), newHistory(streams), newPause(streams), newResume(streams), newAbort(streams), newUndo(streams),
		newRestart(streams))
	return cmd
}

// options are the user's arguments and flags.
type options struct {
	cli.Output
}

// newSubcommand returns a command for one deployment.
func newSubcommand(streams genericiooptions.IOStreams, verb, short, long string, act func(ctx context.Context, o *options, c client.Client,
	observed Observed) error) *cobra.Command {
	o := &options{cli.NewOutput(streams)}
	cmd := &cobra.Command{
		Use: verb + " (NAME | dgd NAME | dgd/NAME)", Short: short, Long: long, Example: "  kubectl trellis rollout " + verb + " dgd/my-llm",
		Args: cli.OneObject, ValidArgsFunction: o.CompleteObject(false, cli.Graph),
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args, act) },
	}
	o.AddFlags(cmd, "")
	return cmd
}

func (o *options) run(ctx context.Context, args []string, act func(context.Context, *options, client.Client, Observed) error) error {
	name, err := cli.GraphName(args...)
	if err = errors.Join(err, o.Check()); err != nil {
		return err
	}
	c, namespace, err := cli.NewClient(o.Config)
	if err != nil {
		return err
	}
	var observed Observed
	err = o.During("reading the deployment", func() (err error) {
		observed, err = Read(ctx, c, client.ObjectKey{Namespace: namespace, Name: name})
		return err
	})
	if err != nil {
		return err
	}
	return act(ctx, o, c, observed)
}

func newStatus(streams genericiooptions.IOStreams) *cobra.Command {
	return newSubcommand(streams, "status", "Show how many replicas of each generation of workers there are",
		"Shows the replicas of each generation of workers, whether the update is paused or was aborted, and what it waits for.",
		func(_ context.Context, o *options, _ client.Client, observed Observed) error {
			return observed.Operator.Show(&o.Output, Build(observed))
		})
}

func newHistory(streams genericiooptions.IOStreams) *cobra.Command {
	return newSubcommand(streams, "history", "List the stored generations of workers",
		"Lists the generations of workers that are stored, the newest first. An aborted update returns to one of them.",
		func(ctx context.Context, o *options, c client.Client, observed Observed) error {
			revisions, err := readHistory(ctx, c, observed.Graph)
			if err != nil {
				return err
			}
			return observed.Operator.Show(&o.Output, Generations(observed, revisions, cli.Now(c)))
		})
}

func newPause(streams genericiooptions.IOStreams) *cobra.Command {
	return newSubcommand(streams, "pause", "Replace no further replica",
		"Pauses the update: no replica is replaced until it is resumed. A paused deployment takes up changes, and replaces nothing for them.",
		func(ctx context.Context, o *options, c client.Client, observed Observed) error {
			return o.change(ctx, c, observed, map[string]*string{rollout.AnnotationPaused: ptr.To("true")}, "paused")
		})
}

func newResume(streams genericiooptions.IOStreams) *cobra.Command {
	return newSubcommand(streams, "resume", "Continue an update that is paused or was aborted",
		"Continues an update that is paused, including at its partition, and starts an aborted one again.",
		func(ctx context.Context, o *options, c client.Client, observed Observed) error {
			return o.change(ctx, c, observed, map[string]*string{
				rollout.AnnotationPaused: nil, rollout.AnnotationAborted: nil, rollout.AnnotationPartition: nil,
			}, "resumed")
		})
}

func newAbort(streams genericiooptions.IOStreams) *cobra.Command {
	return newSubcommand(streams, "abort", "Return to the previous generation of workers",
		"Aborts the update: the workers return to the generation that was rolled out last, in step, and stay there until they are changed "+
			"again.\n"+
			"The spec of the deployment stays as it is.",
		func(ctx context.Context, o *options, c client.Client, observed Observed) error {
			generation, err := toAbort(observed)
			if err != nil {
				return err
			}
			return o.change(ctx, c, observed, map[string]*string{rollout.AnnotationAborted: &generation, rollout.AnnotationPaused: nil},
				"aborted generation "+generation)
		})
}

// toAbort returns the generation to abort: the generation to which the workers are changing.
func toAbort(o Observed) (string, error) {
	status := Build(o)
	switch {
	case status.State == RolledBack:
		return "", fmt.Errorf("generation %s was aborted already", status.Aborted)
	case status.Target == "" && o.Graph.Status.ObservedGeneration != o.Graph.Generation:
		return "", errors.New("the operator has not taken up the last change yet: try again in a moment")
	case status.Target == "":
		return "", notUpdating(o, status.Generation)
	}
	return status.Target, nil
}

// notUpdating returns the error for an abort while no update is in progress. After a completed update, the message suggests undoing the
// update.
func notUpdating(o Observed, generation string) error {
	if generation == "" {
		return errors.New("no update of the workers is in progress")
	}
	return fmt.Errorf("no update of the workers is in progress; to return from generation %s, which is rolled out, to the one before: "+
		"kubectl trellis rollout undo dgd/%s -n %s", generation, o.Graph.Name, o.Graph.Namespace)
}

// change writes annotations of the deployment, and reports what was done.
func (o *options) change(ctx context.Context, c client.Client, observed Observed, annotations map[string]*string, done string) error {
	if err := annotate(ctx, c, observed.Graph, annotations); err != nil {
		return err
	}
	observed.Operator.Warn(o.ErrOut)
	_, err := fmt.Fprintf(o.Out, "%s: %s\n", observed.Graph.Name, done)
	return err
}
