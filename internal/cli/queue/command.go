// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/internal/cli"
	"github.com/trellis-k8s/trellis/internal/cli/live"
)

type options struct {
	cli.Output
	all bool
}

// NewCommand returns kubectl trellis queue.
func NewCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := &options{Output: cli.NewOutput(streams)}
	cmd := &cobra.Command{
		Use:   "queue",
		Short: "List what waits to be placed, for how many GPUs, since when and why, in the order in which it is planned",
		Long: "Lists the DynamoGraphDeployments that are not fully placed, of all namespaces, one a line, in the order in which the operator " +
			"plans\n" +
			"them: higher priority first, and within one priority the namespaces in turn, each with its oldest first. A deployment that does\n" +
			"not fit does not block those behind it. What waits for admission, by Kueue for example, is not planned yet and comes last,\n" +
			"without a number. With -n only those of one namespace are listed; the numbers still count all. GPUS is the number that the\n" +
			"replicas without a place request, of all that the deployment requests. -o wide adds the messages.",
		Example: "  kubectl trellis queue\n  kubectl trellis queue -n team-a -o json",
		Args:    cli.NoArguments,
		RunE:    func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	o.AddFlags(cmd, "")
	cmd.Flags().BoolVarP(&o.all, "all-namespaces", "A", false, "list those of all namespaces, which is the default without -n")
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
	only := ""
	if o.Config.Namespace != nil && !o.all {
		only = *o.Config.Namespace
	}
	var s Deployments
	err = o.During("reading the deployments", func() (err error) {
		s, err = Read(ctx, c, namespace, only)
		s.Now = cli.Now(c)
		return err
	})
	if err != nil {
		return err
	}
	return s.Operator.Show(&o.Output, Build(s))
}

// Deployments is the input of a report, including the objects that determine the order.
type Deployments struct {
	live.Snapshot
	// Members are the metadata of the graphs' pods. PodsHidden: the user may not list the pods of all namespaces. PodsOf is then the only
	// namespace whose pods were listed; empty if the user may not list any pods.
	Members    []metav1.PartialObjectMetadata
	PodsHidden bool
	PodsOf     string
	// Only is the namespace whose deployments the report lists; empty for all namespaces. OnlyMissing: this namespace does not exist.
	Only        string
	OnlyMissing bool
	// Operator is the state of the operator; nil if it is running.
	Operator *live.Heartbeat
}

// Read reads the deployments of all namespaces or, if the user may not list these, the deployments of the given namespace. only is the
// namespace whose deployments the report lists; empty for all namespaces.
func Read(ctx context.Context, c client.Reader, namespace, only string) (Deployments, error) {
	s := Deployments{Only: only}
	snapshot, err := live.Read(ctx, c, live.Graphs, live.Priorities)
	if err != nil {
		return s, err
	}
	if s.Snapshot = *snapshot; s.NotInstalled != nil {
		return s, s.NotInstalled
	}
	if err := s.Narrow(ctx, c, namespace, live.Graphs); err != nil {
		return s, err
	}
	if err := s.readPods(ctx, c, namespace); err != nil {
		return s, err
	}
	if s.OnlyMissing, err = missing(ctx, c, only); err != nil {
		return s, err
	}
	s.Operator, err = live.ReadHeartbeat(ctx, c)
	return s, err
}

// readPods reads the pods of all namespaces, the pods of one namespace, or no pods, depending on the user's rights.
func (s *Deployments) readPods(ctx context.Context, c client.Reader, namespace string) (err error) {
	if s.Members, err = live.Members(ctx, c, ""); apierrors.IsForbidden(err) {
		s.PodsHidden = true
		if s.Members, err = live.Members(ctx, c, namespace); err == nil {
			s.PodsOf = namespace
		}
	}
	if err != nil && !apierrors.IsForbidden(err) {
		return fmt.Errorf("listing the pods of deployments: %w", err)
	}
	return nil
}

// missing reports whether a namespace does not exist. It returns false if the user may not list namespaces.
func missing(ctx context.Context, c client.Reader, namespace string) (bool, error) {
	if namespace == "" {
		return false, nil
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NamespaceList"))
	err := c.List(ctx, list, client.MatchingFields{"metadata.name": namespace})
	if err != nil && !apierrors.IsForbidden(err) {
		return false, fmt.Errorf("looking namespace %s up: %w", namespace, err)
	}
	return err == nil && len(list.Items) == 0, nil
}
