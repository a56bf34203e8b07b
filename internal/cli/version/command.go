// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package version

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/internal/cli"
	"github.com/trellis-k8s/trellis/internal/cli/live"
	"github.com/trellis-k8s/trellis/internal/version"
)

const (
	// defaultNamespace is the operator's namespace in the manifests. A user without cluster-wide rights may be able to read in this
	// namespace.
	defaultNamespace = "trellis-system"
	// patience bounds the wait for the cluster, unless --request-timeout is set.
	patience = 5 * time.Second
)

type options struct {
	cli.Output
	clientOnly bool
}

// NewCommand returns kubectl trellis version.
func NewCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := &options{Output: cli.NewOutput(streams)}
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Show the versions of the plugin and of the operator",
		Long: "Shows the build of this plugin, and the image of the operator in the cluster.\n" +
			"A cluster that cannot be reached or has no operator is reported and is no error.",
		Example: "  kubectl trellis version\n  kubectl trellis version --client -o json",
		Args:    cli.NoArguments,
		RunE:    func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	o.AddFlags(cmd, "")
	cmd.Flags().BoolVar(&o.clientOnly, "client", false, "show the plugin's version only; no cluster is asked")
	return cmd
}

func (o *options) run(ctx context.Context) error {
	if err := o.Check(); err != nil {
		return err
	}
	report := Versions{Client: version.Get()}
	if !o.clientOnly {
		_ = o.During("asking the cluster for the operator", func() error { // the report contains the failure
			report.Operators, report.Problem = o.ask(ctx)
			return nil
		})
	}
	return o.Show(report)
}

// ask finds the operator in the cluster. If it finds no operator, it returns the problem.
func (o *options) ask(ctx context.Context) (found []Operator, problem string) {
	if timeout := o.Config.Timeout; timeout == nil || *timeout == "0" {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, patience)
		defer stop()
	}
	c, _, err := cli.NewClient(o.Config)
	if err != nil {
		return []Operator{}, err.Error()
	}
	list := appsv1.DeploymentList{}
	err = c.List(ctx, &list, live.Operator)
	if apierrors.IsForbidden(err) {
		err = c.List(ctx, &list, live.Operator, client.InNamespace(defaultNamespace))
	}
	if err != nil {
		return []Operator{}, err.Error()
	}
	if found = operators(list.Items); len(found) == 0 {
		return found, "the cluster has no Deployment of it"
	}
	return found, ""
}
