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

// options are what the user gives.
type options struct {
	cli.Output
	all      bool
	topology string
}

// NewCommand returns kubectl trellis tree.
func NewCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := &options{Output: cli.NewOutput(streams)}
	cmd := &cobra.Command{
		Use:   "tree [dgd/NAME]",
		Short: "Show where the pods of inference graphs sit: zone, block, rack, host",
		Long: "Draws the cluster as the tree that its ClusterTopology describes, down to the pods of one DynamoGraphDeployment or of all of them.\n" +
			"Domains without such pods are summed up. Pods that wait are listed below the tree with the reason.",
		Example: "  kubectl trellis tree\n" +
			"  kubectl trellis tree dgd/my-llm -n team-a\n" +
			"  kubectl trellis tree -A --topology hall -o json",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args) },
	}
	o.AddFlags(cmd.Flags(), "")
	cmd.Flags().BoolVarP(&o.all, "all-namespaces", "A", false, "show the graphs of all namespaces")
	cmd.Flags().StringVar(&o.topology, "topology", "", "ClusterTopology to show them in (default: the one each is placed by)")
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
	snapshot, err := Read(ctx, client, request)
	if err != nil {
		return err
	}
	return o.show(request, Build(snapshot))
}

// request is what was asked for, short of the namespace.
func (o *options) request(args []string) (Request, error) {
	r := Request{Topology: o.topology}
	if err := o.Check(); err != nil {
		return r, err
	}
	if len(args) == 0 {
		return r, nil
	}
	if o.all {
		return r, errors.New("a name and --all-namespaces exclude each other: give the namespace with -n")
	}
	var err error
	r.Name, err = cli.GraphName(args[0])
	return r, err
}

func (o *options) show(request Request, report Report) error {
	if len(report.Graphs) == 0 && !o.JSON() {
		where := "in any namespace"
		if request.Namespace != "" {
			where = fmt.Sprintf("in namespace %s; -A shows all namespaces", request.Namespace)
		}
		fmt.Fprintf(o.ErrOut, "No DynamoGraphDeployments %s\n", where)
	}
	return o.Show(report, report.Text)
}
