// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package maps

import (
	"context"
	"errors"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/internal/cli"
	"github.com/trellis-k8s/trellis/internal/cli/live"
	"github.com/trellis-k8s/trellis/internal/cli/plan"
	"github.com/trellis-k8s/trellis/internal/whatif"
)

// read reads the source of a map.
func (o *options) read(ctx context.Context) (*Source, error) {
	if o.offline {
		namespace := metav1.NamespaceDefault
		if o.config.Namespace != nil && *o.config.Namespace != "" {
			namespace = *o.config.Namespace
		}
		return o.source(whatif.World{}, namespace)
	}
	c, namespace, err := cli.NewClient(o.config)
	if err != nil {
		return nil, err
	}
	operator, err := live.ReadHeartbeat(ctx, c)
	if err != nil {
		return nil, err
	}
	source, err := o.readCluster(ctx, c, namespace)
	if err != nil {
		return nil, err
	}
	source.Operator = operator
	return source, nil
}

// readCluster reads everything that the user may read. Without the right to list nodes or all pods, no capacity is
// counted and nothing is planned.
func (o *options) readCluster(ctx context.Context, c client.Reader, namespace string) (*Source, error) {
	snapshot, err := live.Read(ctx, c)
	if err != nil {
		return nil, err
	}
	if err := snapshot.Complete(); err != nil && len(o.files) > 0 {
		return nil, err
	}
	if err := snapshot.Narrow(ctx, c, namespace, live.Pods, live.Groups, live.Graphs); err != nil {
		return nil, err
	}
	s, err := o.source(snapshot.World, namespace)
	if err != nil {
		return nil, err
	}
	s.Taken, s.NodesHidden, s.OthersHidden = time.Now().UTC().Truncate(time.Second), snapshot.Lacks(live.Nodes), snapshot.Lacks(live.Pods)
	return s, nil
}

// source returns the source of a map: the world with the objects of the files.
func (o *options) source(world whatif.World, namespace string) (*Source, error) {
	in, err := plan.Load(world, namespace, o.files, o.IOStreams)
	if err != nil {
		return nil, err
	}
	if o.offline && len(in.World().Nodes) == 0 {
		return nil, errors.New("there is no Node in the files: add the output of kubectl get nodes -o yaml")
	}
	return &Source{Input: in, Files: len(o.files) > 0, Topology: o.topology}, nil
}

// SourceOf returns a source that contains only this world.
func SourceOf(world whatif.World) *Source { return &Source{Input: plan.On(world)} }
