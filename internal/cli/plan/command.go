// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"bytes"
	"context"
	"errors"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/trellis-k8s/trellis/internal/cli"
	"github.com/trellis-k8s/trellis/internal/cli/live"
)

// exitNotPlaced is the exit code if a replica is not placed.
const exitNotPlaced cli.Exit = 2

// options are the user's arguments and flags.
type options struct {
	cli.Output
	files   []string
	cluster bool
	ignored []string
	// operator is the state of the cluster's operator; nil if it is running, or no cluster is read.
	operator *live.Heartbeat
}

// NewCommand returns kubectl trellis plan.
func NewCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := &options{Output: cli.NewOutput(streams)}
	cmd := &cobra.Command{
		Use:   "plan (-f FILE... | --cluster dgd NAME...)",
		Short: "Show where deployments would be placed, or why not, without creating anything",
		Long: "Plans DynamoGraphDeployments one after the other, in the order of the files, as the operator would: what one takes is gone for " +
			"the next.\n" +
			"The files hold DynamoGraphDeployments, and what they are planned on: Nodes, Pods, ClusterTopologies, PriorityClasses, " +
			"RuntimeClasses,\n" +
			"LimitRanges, DeviceClasses, Namespaces, and the kinds of volumes. Other kinds are skipped. With --cluster all but the deployments " +
			"come from the cluster of the kubeconfig, and those in files are added to them or, of\n" +
			"the same name, put in their place.\n\n" +
			"Exit code: 0 everything is placed, 2 something is not, 1 the input is wrong, 3 everything is placed and the operator does not renew " +
			"its lease.",
		Example: "  kubectl trellis plan -f nodes.yaml -f topology.yaml -f my-llm.yaml\n" +
			"  kubectl trellis plan --cluster -f my-llm.yaml\n" +
			"  kubectl get nodes,pods -A -o yaml | kubectl trellis plan -f - -f manifests/ -o json\n" +
			"  kubectl trellis plan --cluster dgd my-llm -f four-more-nodes.yaml",
		ValidArgsFunction: o.CompleteObject(true, cli.Graph),
		RunE:              func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args) },
	}
	o.Config.ClusterName = nil // its flag has the name of ours; --context chooses a cluster as well
	o.AddFlags(cmd, "")
	cmd.Flags().StringSliceVarP(&o.files, "filename", "f", nil, "file, folder, or - for the standard input; may be given several times")
	cmd.Flags().BoolVar(&o.cluster, "cluster", false, "take nodes, pods and topologies from the cluster")
	cmd.Flags().StringSliceVar(&o.ignored, "ignored-resources", nil,
		"resources that do not keep pods off nodes, as the operator's flag has it (default with --cluster: what the operator is started with)")
	return cmd
}

func (o *options) run(ctx context.Context, args []string) error {
	if err := o.check(args); err != nil {
		return err
	}
	var in Input
	if err := o.During("reading the cluster", func() (err error) {
		in, err = o.gather(ctx, args)
		return err
	}); err != nil {
		return err
	}
	var report Plans
	var warnings bytes.Buffer // buffered, so that they do not interrupt the progress line
	err := o.During("planning", func() (err error) {
		report, err = Execute(in, in.Planner(), &warnings)
		return err
	})
	_, _ = warnings.WriteTo(o.ErrOut)
	if err != nil {
		return err
	}
	o.operator.Warn(o.ErrOut)
	report.Operator = o.operator
	if err := o.Show(&report); err != nil {
		return err
	}
	if !report.placed() {
		return exitNotPlaced
	}
	return o.operator.Exit()
}

func (o *options) check(args []string) error {
	switch {
	case len(args) > 0 && !o.cluster:
		return errors.New("a deployment that exists is planned with --cluster; one in a file with -f FILE")
	case len(args) == 0 && len(o.files) == 0:
		return errors.New("nothing to plan: give manifests with -f FILE")
	}
	return o.Check()
}
