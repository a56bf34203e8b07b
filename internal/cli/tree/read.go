// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/cli"
	"github.com/trellis-k8s/trellis/internal/cli/live"
)

// page is how many objects are asked for at a time.
const page = 1000

// Request says which graphs are wanted.
type Request struct {
	// Namespace of the graphs; empty for all.
	Namespace string
	// Name of the one graph wanted; empty for all.
	Name string
	// Topology to show them in; empty for the one they are placed by.
	Topology string
}

// Snapshot is what a tree is made of.
type Snapshot struct {
	// Graphs to show, and their groups.
	Graphs []nvidiav1beta1.DynamoGraphDeployment
	Groups []trellisv1alpha1.ScalingGroup
	// Topology to show all of them in; nil for the one each is placed by.
	Topology   *grovev1alpha1.ClusterTopology
	Topologies []grovev1alpha1.ClusterTopology
	// Nodes of the cluster, unless NodesHidden.
	Nodes       []corev1.Node
	NodesHidden bool
	// Pods that have not ended: of the whole cluster, or of the graphs' namespaces when OthersHidden.
	Pods         []corev1.Pod
	OthersHidden bool
	// Operator is what is known of the operator, nil when it is running.
	Operator *live.Heartbeat
}

// Read takes a snapshot. What the user may not read is left out and marked, as long as there is something to show.
func Read(ctx context.Context, c client.Reader, r Request) (*Snapshot, error) {
	s := &Snapshot{}
	var err error
	if s.Graphs, err = readGraphs(ctx, c, r); err != nil {
		return nil, err
	}
	groups := &trellisv1alpha1.ScalingGroupList{}
	if err := c.List(ctx, groups, client.InNamespace(r.Namespace)); err != nil {
		return nil, cli.Explain(err, "listing ScalingGroups")
	}
	s.Groups = groups.Items
	if err := s.readTopologies(ctx, c, r.Topology); err != nil {
		return nil, err
	}
	s.Nodes, err = readNodes(ctx, c)
	if s.NodesHidden = apierrors.IsForbidden(err); err != nil && !s.NodesHidden {
		return nil, cli.Explain(err, "listing nodes")
	}
	s.Pods, err = readPods(ctx, c, "")
	if s.OthersHidden = apierrors.IsForbidden(err) && r.Namespace != ""; s.OthersHidden {
		s.Pods, err = readPods(ctx, c, r.Namespace)
	}
	if err != nil {
		return nil, cli.Explain(err, "listing pods")
	}
	s.Operator, err = live.ReadHeartbeat(ctx, c)
	return s, err
}

func readGraphs(ctx context.Context, c client.Reader, r Request) ([]nvidiav1beta1.DynamoGraphDeployment, error) {
	list := &nvidiav1beta1.DynamoGraphDeploymentList{}
	if r.Name == "" {
		if err := c.List(ctx, list, client.InNamespace(r.Namespace)); err != nil {
			return nil, cli.Explain(err, "listing DynamoGraphDeployments")
		}
		return list.Items, nil
	}
	dgd := &nvidiav1beta1.DynamoGraphDeployment{}
	err := c.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: r.Name}, dgd)
	if err == nil {
		return []nvidiav1beta1.DynamoGraphDeployment{*dgd}, nil
	}
	if !apierrors.IsNotFound(err) {
		return nil, cli.Explain(err, fmt.Sprintf("getting DynamoGraphDeployment %s/%s", r.Namespace, r.Name))
	}
	return nil, cli.FindGraph(ctx, c, client.ObjectKey{Namespace: r.Namespace, Name: r.Name})
}

// readTopologies needs the right to read them only when one is asked for by name.
func (s *Snapshot) readTopologies(ctx context.Context, c client.Reader, name string) error {
	list := &grovev1alpha1.ClusterTopologyList{}
	err := c.List(ctx, list)
	if err != nil && (name != "" || !apierrors.IsForbidden(err)) {
		return cli.Explain(err, "listing ClusterTopologies")
	}
	s.Topologies = list.Items
	if name == "" {
		return nil
	}
	return s.Choose(name)
}

// Choose shows all graphs in one of the topologies.
func (s *Snapshot) Choose(name string) error {
	var names []string
	for i := range s.Topologies {
		if s.Topologies[i].Name == name {
			s.Topology = &s.Topologies[i]
			return nil
		}
		names = append(names, s.Topologies[i].Name)
	}
	return cli.NotFound("ClusterTopology "+name, names, "none in this cluster")
}

func readNodes(ctx context.Context, c client.Reader) ([]corev1.Node, error) {
	var all []corev1.Node
	token := ""
	for {
		list := &corev1.NodeList{} // decoding into an old one would write into the maps of its items
		if err := c.List(ctx, list, client.Limit(page), client.Continue(token)); err != nil {
			return nil, err
		}
		all = append(all, list.Items...)
		if token = list.Continue; token == "" {
			return all, nil
		}
	}
}

// readPods lists the pods that have not ended, and keeps of each what a tree needs: clusters have many.
func readPods(ctx context.Context, c client.Reader, namespace string) ([]corev1.Pod, error) {
	living := client.MatchingFieldsSelector{Selector: fields.AndSelectors(
		fields.OneTermNotEqualSelector("status.phase", string(corev1.PodSucceeded)),
		fields.OneTermNotEqualSelector("status.phase", string(corev1.PodFailed)),
	)}
	var all []corev1.Pod
	token := ""
	for {
		list := &corev1.PodList{} // decoding into an old one would write into the maps of its items
		if err := c.List(ctx, list, client.InNamespace(namespace), living, client.Limit(page), client.Continue(token)); err != nil {
			return nil, err
		}
		for i := range list.Items {
			all = append(all, strip(&list.Items[i]))
		}
		if token = list.Continue; token == "" {
			return all, nil
		}
	}
}

func strip(p *corev1.Pod) corev1.Pod {
	kept := corev1.Pod{}
	kept.Namespace, kept.Name, kept.Labels, kept.DeletionTimestamp = p.Namespace, p.Name, p.Labels, p.DeletionTimestamp
	kept.Spec.NodeName, kept.Spec.NodeSelector, kept.Spec.Overhead = p.Spec.NodeName, p.Spec.NodeSelector, p.Spec.Overhead
	kept.Spec.Resources, kept.Spec.SchedulingGates = p.Spec.Resources, p.Spec.SchedulingGates
	kept.Status.Conditions = p.Status.Conditions
	for i := range p.Spec.Containers {
		kept.Spec.Containers = append(kept.Spec.Containers, corev1.Container{Resources: p.Spec.Containers[i].Resources})
	}
	for i := range p.Spec.InitContainers {
		c := &p.Spec.InitContainers[i]
		kept.Spec.InitContainers = append(kept.Spec.InitContainers, corev1.Container{Resources: c.Resources, RestartPolicy: c.RestartPolicy})
	}
	return kept
}
