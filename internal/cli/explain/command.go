// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"context"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/trellis-k8s/trellis/internal/cli"
)

// options are the user's arguments and flags.
type options struct {
	cli.Output
}

// NewCommand returns kubectl trellis explain.
func NewCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := &options{Output: cli.NewOutput(streams)}
	cmd := &cobra.Command{
		Use:   "explain (NAME | dgd NAME | sg NAME | pod NAME)",
		Short: "Show where each replica of a deployment is placed, or why it waits and what would free capacity for it",
		Long: "Shows each replica of a DynamoGraphDeployment: its place, or why it has none. What waits is planned again, on the cluster as " +
			"it is now and\n" +
			"without changing it; the operator's last report is shown with it. The name of a scaling group or a pod selects its deployment.",
		Example: "  kubectl trellis explain dgd my-llm\n" +
			"  kubectl trellis explain pod/my-llm-worker-1-0 -n team-a\n" +
			"  kubectl trellis explain my-llm -o json",
		Args:              cli.OneObject,
		ValidArgsFunction: o.CompleteObject(false, cli.Graph, cli.Group, cli.Pod),
		RunE:              func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args) },
	}
	o.AddFlags(cmd, "")
	return cmd
}

func (o *options) run(ctx context.Context, args []string) error {
	if err := o.Check(); err != nil {
		return err
	}
	t, err := parseTarget(args...)
	if err != nil {
		return err
	}
	client, namespace, err := cli.NewClient(o.Config)
	if err != nil {
		return err
	}
	var report Explanation
	err = o.During("reading the cluster and planning again", func() error {
		snapshot, err := Read(ctx, client, namespace, t)
		if err != nil {
			return err
		}
		snapshot.Now = cli.Now(client)
		report = Build(snapshot)
		return nil
	})
	if err != nil {
		return err
	}
	return report.Operator.Show(&o.Output, report)
}
