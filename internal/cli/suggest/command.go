// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package suggest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/trellis-k8s/trellis/internal/cli"
	"github.com/trellis-k8s/trellis/internal/cli/files"
	"github.com/trellis-k8s/trellis/internal/cli/live"
)

// kinds of manifests in which a topology can be suggested. Grove and Dynamo read only ClusterTopologyBindings.
var kinds = []string{cli.Topology.Name, cli.Binding.Name}

type options struct {
	cli.Output
	name  string
	kind  string
	files []string
}

// NewCommand returns kubectl trellis topology.
func NewCommand(streams genericiooptions.IOStreams) *cobra.Command {
	cmd := &cobra.Command{Use: "topology", Short: "Work with ClusterTopologies"}
	cmd.AddCommand(newSuggestCommand(streams))
	return cmd
}

func newSuggestCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := &options{Output: cli.NewOutput(streams)}
	cmd := &cobra.Command{
		Use:   "suggest",
		Short: "Propose a ClusterTopology from the labels of the nodes",
		Long: "Proposes a ClusterTopology from the labels of the nodes: the labels whose place in the network is known, from the broadest to " +
			"the\n" +
			"narrowest. The output is a manifest; its comments say how many nodes have each label, what was left out, and what is odd.\n" +
			"Nothing is written to the cluster.",
		Example: "  kubectl trellis topology suggest > topology.yaml\n" +
			"  kubectl get nodes -o yaml | kubectl trellis topology suggest -f -",
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	o.AddFlags(cmd, "; text is a manifest")
	cmd.Flags().StringVar(&o.name, "name", "cluster", "name of the topology")
	cmd.Flags().StringVar(&o.kind, "kind", cli.Topology.Name, "kind of the manifest: "+strings.Join(kinds, " or "))
	cmd.Flags().StringSliceVarP(&o.files, "filename", "f", nil,
		"file, folder or - with the nodes, instead of those of the cluster; may be given several times")
	return cmd
}

func (o *options) run(ctx context.Context) error {
	if err := o.Check(); err != nil {
		return err
	}
	if why := validation.IsDNS1123Subdomain(o.name); len(why) > 0 {
		return fmt.Errorf("--name %s: %s", o.name, why[0])
	}
	if !slices.Contains(kinds, o.kind) {
		return fmt.Errorf("--kind %s: want %s", o.kind, strings.Join(kinds, " or "))
	}
	nodes, err := o.nodes(ctx)
	if err != nil {
		return err
	}
	if len(nodes) == 0 {
		return errors.New("there are no nodes")
	}
	report := Build(o.kind, o.name, nodes)
	return o.Show(report)
}

// nodes returns the nodes of the files, or of the cluster.
func (o *options) nodes(ctx context.Context) ([]*corev1.Node, error) {
	if len(o.files) == 0 {
		c, _, err := cli.NewClient(o.Config)
		if err != nil {
			return nil, err
		}
		var nodes []*corev1.Node
		err = o.During("reading the nodes", func() (err error) {
			nodes, err = live.ListNodes(ctx, c)
			return err
		})
		if err != nil {
			return nil, cli.Explain(err, "listing the nodes")
		}
		return nodes, nil
	}
	objects, _, err := files.Read(o.files, o.In)
	if err != nil {
		return nil, err
	}
	var out []*corev1.Node
	for _, object := range objects {
		if node, ok := object.Object.(*corev1.Node); ok {
			out = append(out, node)
		}
	}
	return out, nil
}
