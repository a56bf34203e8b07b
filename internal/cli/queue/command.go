// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/cli"
	"github.com/trellis-k8s/trellis/internal/cli/text"
)

type options struct{ cli.Output }

// NewCommand returns kubectl trellis queue.
func NewCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := &options{cli.NewOutput(streams)}
	cmd := &cobra.Command{
		Use:   "queue",
		Short: "List what waits to be placed, since when and why, in the order in which it is planned",
		Long: "Lists the DynamoGraphDeployments that are not placed whole, of all namespaces, in the order in which the operator plans them: higher\n" +
			"priority first, and within one priority the namespaces in turn, each with its oldest first. A deployment that does not fit keeps\n" +
			"nobody behind it from being placed. With -n only those of one namespace are listed; the numbers still count all.",
		Example: "  kubectl trellis queue\n  kubectl trellis queue -n team-a -o json",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	o.AddFlags(cmd, "")
	return cmd
}

func (o *options) run(ctx context.Context) error {
	if err := o.Check(); err != nil {
		return err
	}
	c, namespace, err := cli.NewClient(o.Config)
	if err != nil {
		return err
	}
	var s Snapshot
	err = o.During("reading the deployments", func() (err error) {
		s, err = Read(ctx, c, namespace)
		return err
	})
	if err != nil {
		return err
	}
	if o.Config.Namespace != nil && *o.Config.Namespace != "" {
		s.Only = *o.Config.Namespace
	}
	report := Build(s)
	return o.Show(report, func(p text.Page) string { return report.Text(p, time.Now()) })
}

// Snapshot is what a report is made from.
type Snapshot struct {
	Graphs     []nvidiav1beta1.DynamoGraphDeployment
	Priorities []schedulingv1.PriorityClass
	// Only is the namespace whose deployments are listed; empty: all.
	Only string
	// Denied are the rights that the user lacks.
	Denied []string
}

// Read lists the deployments of all namespaces, or, where the user may not, those of one.
func Read(ctx context.Context, c client.Reader, namespace string) (Snapshot, error) {
	s := Snapshot{}
	graphs := &nvidiav1beta1.DynamoGraphDeploymentList{}
	err := c.List(ctx, graphs)
	if apierrors.IsForbidden(err) {
		s.Denied = append(s.Denied, "list dynamographdeployments.nvidia.com")
		err = c.List(ctx, graphs, client.InNamespace(namespace))
	}
	if err != nil {
		return s, cli.Explain(err, "listing DynamoGraphDeployments")
	}
	classes := &schedulingv1.PriorityClassList{}
	if err := c.List(ctx, classes); apierrors.IsForbidden(err) {
		s.Denied = append(s.Denied, "list priorityclasses.scheduling.k8s.io")
	} else if err != nil {
		return s, fmt.Errorf("listing PriorityClasses: %w", err)
	}
	s.Graphs, s.Priorities = graphs.Items, classes.Items
	return s, nil
}
