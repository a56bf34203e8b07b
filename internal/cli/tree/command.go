// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"encoding/json"
	"errors"
	"fmt"

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

// NewCommand returns kubectl trellis tree.
func NewCommand(streams genericiooptions.IOStreams) *cobra.Command {
	flags := genericclioptions.NewConfigFlags(true)
	var (
		all              bool
		topology, format string
	)
	cmd := &cobra.Command{
		Use:   "tree [dgd/NAME]",
		Short: "Show where the pods of inference graphs sit: zone, block, rack, host",
		Long: "Draws the cluster as the tree that its ClusterTopology describes, down to the pods of one DynamoGraphDeployment or of all of them.\n" +
			"Domains without such pods are summed up. Pods that wait are listed below the tree with the reason.",
		Example: "  kubectl trellis tree\n" +
			"  kubectl trellis tree dgd/my-llm -n team-a\n" +
			"  kubectl trellis tree -A --topology hall -o json",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if format != formatText && format != formatJSON {
				return fmt.Errorf("-o %s: want %s or %s", format, formatText, formatJSON)
			}
			request := Request{Topology: topology}
			if len(args) == 1 {
				var err error
				if request.Name, err = cli.GraphName(args[0]); err != nil {
					return err
				}
				if all {
					return errors.New("a name and --all-namespaces exclude each other: give the namespace with -n")
				}
			}
			client, namespace, err := cli.NewClient(flags)
			if err != nil {
				return err
			}
			if !all {
				request.Namespace = namespace
			}
			snapshot, err := Read(cmd.Context(), client, request)
			if err != nil {
				return err
			}
			return show(streams, request, Build(snapshot), format)
		},
	}
	flags.AddFlags(cmd.Flags())
	cmd.Flags().BoolVarP(&all, "all-namespaces", "A", false, "show the graphs of all namespaces")
	cmd.Flags().StringVar(&topology, "topology", "", "ClusterTopology to show them in (default: the one each is placed by)")
	cmd.Flags().StringVarP(&format, "output", "o", formatText, "text or json")
	return cmd
}

func show(streams genericiooptions.IOStreams, request Request, report Report, format string) error {
	if format == formatJSON {
		encoder := json.NewEncoder(streams.Out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(report)
	}
	if len(report.Graphs) == 0 {
		where := "in any namespace"
		if request.Namespace != "" {
			where = fmt.Sprintf("in namespace %s; -A shows all namespaces", request.Namespace)
		}
		fmt.Fprintf(streams.ErrOut, "No DynamoGraphDeployments %s\n", where)
	}
	_, err := fmt.Fprint(streams.Out, report.Text())
	return err
}
