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
	// Name of the one graph wanted; empty for all.
	Name string
	// Topology to show them in; empty for the one they are placed by.
	Topology string
}

// Scene is what a tree is made of: a cluster, whose Graphs are those to show.
type Scene struct {
	whatif.World
	// Planner counts the nodes and pods of the world, and of all its scaling groups.
	Planner *whatif.Planner
	// Topology to show all graphs in; nil for the one each is placed by.
	Topology *grovev1alpha1.ClusterTopology
	// NodesHidden and OthersHidden: the user may not list nodes, or the pods of other namespaces, which are missing in the world.
	NodesHidden, OthersHidden bool
	// Operator is what is known of the operator, nil when it is running.
	Operator *live.Heartbeat
}

// Of is the scene of a world that a plan is made on, with all of its graphs. Pods that have ended take no capacity and are left out.
func Of(w *whatif.World) *Scene { return Counted(w, whatif.NewPlanner(*w)) }

// Counted is the scene of a world that a planner has counted.
func Counted(w *whatif.World, planner *whatif.Planner) *Scene {
	s := &Scene{World: *w, Planner: planner}
	s.Pods = slices.DeleteFunc(slices.Clone(w.Pods), func(pod *corev1.Pod) bool {
		return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	})
	return s
}

// Read takes the scene from a cluster. What the user may not read is left out and marked, as long as there is something to show.
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

// named is the one graph that is wanted; none when all are.
func (r Request) named(ctx context.Context, c client.Reader) ([]*nvidiav1beta1.DynamoGraphDeployment, error) {
	if r.Name == "" {
		return nil, nil
	}
	dgd, err := live.Graph(ctx, c, types.NamespacedName{Namespace: r.Namespace, Name: r.Name})
	return []*nvidiav1beta1.DynamoGraphDeployment{dgd}, err
}

// Choose shows all graphs in one of the topologies; "" in the one that each is placed by.
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
