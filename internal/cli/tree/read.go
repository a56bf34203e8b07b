// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/cli"
	"github.com/trellis-k8s/trellis/internal/cli/live"
	"github.com/trellis-k8s/trellis/internal/whatif"
)

// Request selects the graphs to show.
type Request struct {
	// Namespace of the graphs; empty for all.
	Namespace string
	// Name of the graph to show; empty for all.
	Name string
	// Topology in which to show the graphs; empty: each graph in the topology by which it is placed.
	Topology string
}

// Scene is the input of a tree: a cluster. Its Graphs are the graphs to show.
type Scene struct {
	whatif.World
	// Planner has counted all nodes and pods of the world, including the pods of graphs that are not shown.
	Planner *whatif.Planner
	// Topology in which to show all graphs; nil: each graph in the topology by which it is placed.
	Topology *grovev1alpha1.ClusterTopology
	// NodesHidden and OthersHidden: the user may not list nodes, or the pods of other namespaces, so the world lacks these objects.
	NodesHidden, OthersHidden bool
	// Operator is the state of the operator; nil if it is running.
	Operator *live.Heartbeat
}

// Of returns the scene of a world, such as the world after a plan, with all of its graphs. It omits finished pods, which use no capacity.
func Of(w *whatif.World) *Scene { return Counted(w, whatif.NewPlanner(*w)) }

// Counted returns the scene of a world with a planner that has already counted this world. It omits finished pods.
func Counted(w *whatif.World, planner *whatif.Planner) *Scene {
	s := &Scene{World: *w, Planner: planner}
	s.Pods = slices.DeleteFunc(slices.Clone(w.Pods), func(pod *corev1.Pod) bool {
		return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	})
	return s
}

// Read reads the scene from a cluster. It omits nodes and pods that the user may not list, and sets NodesHidden and OthersHidden
// accordingly.
func Read(ctx context.Context, c client.Reader, r Request) (*Scene, error) {
	graphs, err := r.named(ctx, c)
	if err != nil {
		return nil, err
	}
	cluster, err := live.Read(ctx, c)
	if err != nil {
		return nil, err
	}
	if cluster.NotInstalled != nil {
		return nil, cluster.NotInstalled
	}
	if err := cluster.Narrow(ctx, c, r.Namespace, live.Pods, live.Groups, live.Graphs); err != nil {
		return nil, err
	}
	s := Of(&cluster.World)
	if s.Graphs = graphs; r.Name == "" {
		s.Graphs = slices.DeleteFunc(slices.Clone(cluster.Graphs), func(dgd *nvidiav1beta1.DynamoGraphDeployment) bool {
			return r.Namespace != "" && dgd.Namespace != r.Namespace
		})
	}
	s.NodesHidden, s.OthersHidden = cluster.Lacks(live.Nodes), cluster.Lacks(live.Pods)
	if r.Topology != "" && cluster.Lacks(live.Topologies) {
		return nil, fmt.Errorf("ClusterTopology %s: you may not list %s", r.Topology, live.Topologies)
	}
	if err := s.Choose(r.Topology); err != nil {
		return nil, err
	}
	s.Operator, err = live.ReadHeartbeat(ctx, c)
	return s, err
}

// named returns the requested graph; nil if all graphs are requested.
func (r Request) named(ctx context.Context, c client.Reader) ([]*nvidiav1beta1.DynamoGraphDeployment, error) {
	if r.Name == "" {
		return nil, nil
	}
	dgd, err := live.Graph(ctx, c, types.NamespacedName{Namespace: r.Namespace, Name: r.Name})
	return []*nvidiav1beta1.DynamoGraphDeployment{dgd}, err
}

// Choose sets the topology in which all graphs are shown. With "", each graph is shown in the topology by which it is placed.
func (s *Scene) Choose(name string) error {
	if name == "" {
		return nil
	}
	if s.Topology = s.World.Topology(name); s.Topology != nil {
		return nil
	}
	var names []string
	for _, t := range s.Topologies {
		names = append(names, t.Name)
	}
	return cli.NotFound("ClusterTopology "+name, names, "none in this cluster")
}
