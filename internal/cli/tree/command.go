// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/trellis-k8s/trellis/internal/cli"
)

// options are the user's arguments and flags.
type options struct {
	cli.Output
	all      bool
	topology string
	draw     Draw
}

// NewCommand returns kubectl trellis tree.
func NewCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := &options{Output: cli.NewOutput(streams)}
	cmd := &cobra.Command{
		Use:   "tree [NAME | dgd NAME | ctopo NAME]",
		Short: "Show where the pods of inference graphs sit: zone, block, rack, host",
		Long: "Draws the cluster as the tree that its ClusterTopology describes, down to the pods of one DynamoGraphDeployment or of all of " +
			"them.\n" +
			"Domains without such pods are summed up. Pods that wait are listed below the tree with the reason.\n" +
			"Without deployments it draws the domains themselves, down to the level that still fits a screen.",
		Example: "  kubectl trellis tree\n" +
			"  kubectl trellis tree dgd my-llm -n team-a\n" +
			"  kubectl trellis tree --level rack\n" +
			"  kubectl trellis tree --free 8 --level host\n" +
			"  kubectl trellis tree -A --topology hall -o json",
		Args:              cobra.MaximumNArgs(2),
		ValidArgsFunction: o.CompleteObject(false, cli.Graph, cli.Topology, cli.Binding),
		RunE:              func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args) },
	}
	o.AddFlags(cmd, "")
	cmd.Flags().BoolVarP(&o.all, "all-namespaces", "A", false, "show the graphs of all namespaces")
	cmd.Flags().StringVar(&o.topology, "topology", "", "ClusterTopology to show them in (default: the one each is placed by)")
	cmd.Flags().StringVar(&o.draw.Level, "level", "", "draw all domains down to this level, e.g. rack")
	cmd.Flags().IntVar(&o.draw.Depth, "depth", 0, "draw at most this many levels (default: all that hold pods)")
	cmd.Flags().Int64Var(&o.draw.Free, "free", 0, "draw only domains with at least this many GPUs free, those with the most first")
	_ = cmd.RegisterFlagCompletionFunc("topology", o.CompleteName(cli.Topology, cli.Binding)) // the flag exists
	return cmd
}

func (o *options) run(ctx context.Context, args []string) error {
	request, err := o.request(args)
	if err != nil {
		return err
	}
	client, namespace, err := cli.NewClient(o.Config)
	if err != nil {
		return err
	}
	if !o.all {
		request.Namespace = namespace
	}
	var scene *Scene
	err = o.During("reading the cluster", func() (err error) {
		scene, err = Read(ctx, client, request)
		return err
	})
	if err != nil {
		return err
	}
	report, err := BuildAs(scene, o.draw)
	if err != nil {
		return err
	}
	if len(report.Graphs) == 0 && !o.ForPrograms() {
		fmt.Fprintf(o.ErrOut, "No DynamoGraphDeployments %s\n", request.where())
	}
	return report.Operator.Show(&o.Output, report)
}

// request returns the user's request, without the namespace.
func (o *options) request(args []string) (Request, error) {
	r := Request{Topology: o.topology}
	if err := o.Check(); err != nil {
		return r, err
	}
	if o.draw.Depth < 0 || o.draw.Free < 0 {
		return r, errors.New("--depth and --free: want a positive number")
	}
	if len(args) == 0 {
		return r, nil
	}
	kind, name, err := cli.Object(args, cli.Graph, cli.Topology, cli.Binding)
	switch {
	case err != nil:
		return r, err
	case kind != cli.Graph && o.topology != "" && o.topology != name:
		return r, fmt.Errorf("%s %s and --topology %s exclude each other", kind.Name, name, o.topology)
	case kind != cli.Graph:
		r.Topology = name
		return r, nil
	case o.all:
		return r, errors.New("a name and --all-namespaces exclude each other: give the namespace with -n")
	}
	r.Name = name
	return r, nil
}

// where describes the namespaces in which graphs were searched.
func (r Request) where() string {
	if r.Namespace == "" {
		return "in any namespace"
	}
	return fmt.Sprintf("in namespace %s; -A shows all namespaces", r.Namespace)
}
