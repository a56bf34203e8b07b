// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/trellis-k8s/trellis/internal/cli"
)

// Formats of the output.
const (
	formatText = "text"
	formatJSON = "json"
)

// options are what the user gives.
type options struct {
	genericiooptions.IOStreams
	config *genericclioptions.ConfigFlags
	format string
}

// NewCommand returns kubectl trellis explain.
func NewCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := &options{IOStreams: streams, config: genericclioptions.NewConfigFlags(true)}
	cmd := &cobra.Command{
		Use:   "explain (dgd/NAME | sg/NAME | pod/NAME)",
		Short: "Say where each replica of a deployment sits, or why it waits and what would free it",
		Long: "Shows each replica of a DynamoGraphDeployment: its place, or why it has none. What waits is planned again, on the cluster as it is now and\n" +
			"without changing it; what the operator reported last stands beside it. A scaling group or a pod stands for its deployment.",
		Example: "  kubectl trellis explain dgd/my-llm\n" +
			"  kubectl trellis explain pod/my-llm-worker-1-0 -n team-a\n" +
			"  kubectl trellis explain dgd/my-llm -o json",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args[0]) },
	}
	o.config.AddFlags(cmd.Flags())
	cmd.Flags().StringVarP(&o.format, "output", "o", formatText, "text or json")
	return cmd
}

func (o *options) run(ctx context.Context, arg string) error {
	if o.format != formatText && o.format != formatJSON {
		return fmt.Errorf("-o %s: want %s or %s", o.format, formatText, formatJSON)
	}
	t, err := parseTarget(arg)
	if err != nil {
		return err
	}
	client, namespace, err := cli.NewClient(o.config)
	if err != nil {
		return err
	}
	snapshot, err := Read(ctx, client, namespace, t)
	if err != nil {
		return err
	}
	snapshot.Now = time.Now()
	report := Build(snapshot)
	if o.format == formatJSON {
		encoder := json.NewEncoder(o.Out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(report)
	}
	_, err = fmt.Fprint(o.Out, report.Text(snapshot.Now))
	return err
}
