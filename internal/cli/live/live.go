// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package live reads from a cluster what a plan is made on. Pods and nodes are kept as the operator keeps them, so that the largest cluster
// fits into the memory of a laptop.
package live

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/cli"
	"github.com/trellis-k8s/trellis/internal/graph"
	"github.com/trellis-k8s/trellis/internal/scheduler"
	"github.com/trellis-k8s/trellis/internal/whatif"
)

// optional kinds are of use, and a plan does without them.
var optional = []string{priorityClasses, runtimeClasses, limitRanges, deviceClasses, operators}

const (
	priorityClasses = "priorityclasses.scheduling.k8s.io"
	runtimeClasses  = "runtimeclasses.node.k8s.io"
	limitRanges     = "limitranges"
	deviceClasses   = "deviceclasses.resource.k8s.io"
	operators       = "deployments.apps"
)

// page is how many objects are asked for at a time.
const page = 1000

// Snapshot is a cluster at one time.
type Snapshot struct {
	whatif.World
	// Denied are the rights that the user lacks, e.g. "list nodes"; what they are about is missing in World.
	Denied []string
}

// Complete is an error that names the missing rights, or nil.
func (s *Snapshot) Complete() error {
	needed := slices.DeleteFunc(slices.Clone(s.Denied), func(right string) bool { return slices.Contains(optional, strings.TrimPrefix(right, "list ")) })
	if len(needed) == 0 {
		return nil
	}
	return fmt.Errorf("you may not %s in the whole cluster, which a plan needs: ask for a ClusterRole with these rights", strings.Join(needed, ", "))
}

// Read lists everything a plan needs. Kinds that the cluster does not know (Trellis is not installed) are empty.
func Read(ctx context.Context, c client.Reader) (*Snapshot, error) {
	s := &Snapshot{}
	for _, kind := range []struct {
		name string
		read func() error
	}{
		{"nodes", func() (err error) {
			s.Nodes, err = Nodes(ctx, c)
			return err
		}},
		{"pods", func() (err error) {
			s.Pods, err = readPods(ctx, c, "")
			return err
		}},
		{"clustertopologies.grove.io", func() (err error) {
			s.Topologies, err = listAll(ctx, c, made[grovev1alpha1.ClusterTopologyList],
				func(l *grovev1alpha1.ClusterTopologyList) []grovev1alpha1.ClusterTopology { return l.Items }, whole)
			return err
		}},
		{priorityClasses, func() (err error) {
			s.Priorities, err = listAll(ctx, c, made[schedulingv1.PriorityClassList],
				func(l *schedulingv1.PriorityClassList) []schedulingv1.PriorityClass { return l.Items }, whole)
			return err
		}},
		{runtimeClasses, func() (err error) {
			s.Runtimes, err = listAll(ctx, c, made[nodev1.RuntimeClassList], func(l *nodev1.RuntimeClassList) []nodev1.RuntimeClass { return l.Items }, whole)
			return err
		}},
		{limitRanges, func() (err error) {
			s.Limits, err = listAll(ctx, c, made[corev1.LimitRangeList], func(l *corev1.LimitRangeList) []corev1.LimitRange { return l.Items }, whole)
			return err
		}},
		{deviceClasses, func() (err error) {
			s.Devices, err = listAll(ctx, c, made[resourcev1.DeviceClassList], func(l *resourcev1.DeviceClassList) []resourcev1.DeviceClass { return l.Items }, whole)
			return err
		}},
		{operators, func() (err error) {
			s.Ignored, err = ignoredResources(ctx, c)
			return err
		}},
		{"scalinggroups.trellis.dev", func() (err error) {
			s.Groups, err = readGroups(ctx, c, "")
			return err
		}},
		{"dynamographdeployments.nvidia.com", func() (err error) {
			s.Graphs, err = readGraphs(ctx, c, "")
			return err
		}},
	} {
		switch err := kind.read(); {
		case apierrors.IsForbidden(err):
			s.Denied = append(s.Denied, "list "+kind.name)
		case err != nil && !meta.IsNoMatchError(err):
			return nil, cli.Explain(err, "listing "+kind.name)
		}
	}
	return s, nil
}

// Nodes lists the nodes of the cluster. The error is the API server's.
func Nodes(ctx context.Context, c client.Reader) ([]*corev1.Node, error) {
	return listAll(ctx, c, made[corev1.NodeList], func(l *corev1.NodeList) []corev1.Node { return l.Items }, node)
}

// ReadPods lists the pods of one namespace, for users who may not list those of all.
func (s *Snapshot) ReadPods(ctx context.Context, c client.Reader, namespace string) error {
	var err error
	if s.Pods, err = readPods(ctx, c, namespace); err != nil {
		return cli.Explain(err, "listing the pods of namespace "+namespace)
	}
	return nil
}

// ReadGroups lists the scaling groups of one namespace.
func (s *Snapshot) ReadGroups(ctx context.Context, c client.Reader, namespace string) error {
	var err error
	if s.Groups, err = readGroups(ctx, c, namespace); err != nil {
		return cli.Explain(err, "listing the ScalingGroups of namespace "+namespace)
	}
	return nil
}

// ReadGraphs lists the deployments of one namespace.
func (s *Snapshot) ReadGraphs(ctx context.Context, c client.Reader, namespace string) error {
	var err error
	if s.Graphs, err = readGraphs(ctx, c, namespace); err != nil {
		return cli.Explain(err, "listing the DynamoGraphDeployments of namespace "+namespace)
	}
	return nil
}

func readGraphs(ctx context.Context, c client.Reader, namespace string) ([]*nvidiav1beta1.DynamoGraphDeployment, error) {
	return listAll(ctx, c, made[nvidiav1beta1.DynamoGraphDeploymentList],
		func(l *nvidiav1beta1.DynamoGraphDeploymentList) []nvidiav1beta1.DynamoGraphDeployment {
			return l.Items
		}, whole, client.InNamespace(namespace))
}

func readGroups(ctx context.Context, c client.Reader, namespace string) ([]*trellisv1alpha1.ScalingGroup, error) {
	return listAll(ctx, c, made[trellisv1alpha1.ScalingGroupList],
		func(l *trellisv1alpha1.ScalingGroupList) []trellisv1alpha1.ScalingGroup { return l.Items }, whole, client.InNamespace(namespace))
}

func readPods(ctx context.Context, c client.Reader, namespace string) ([]*corev1.Pod, error) {
	return listAll(ctx, c, made[corev1.PodList], func(l *corev1.PodList) []corev1.Pod { return l.Items }, pod, client.InNamespace(namespace))
}

// listAll reads page by page and keeps of each item what keep returns; nil is left out. Every page is decoded into a list of its own: an old
// one's maps would be written to.
func listAll[L client.ObjectList, T any](
	ctx context.Context, c client.Reader, newList func() L, items func(L) []T, keep func(*T) (*T, error), options ...client.ListOption,
) ([]*T, error) {
	var all []*T
	token := ""
	for {
		list := newList()
		if err := c.List(ctx, list, append(options, client.Limit(page), client.Continue(token))...); err != nil {
			return nil, err
		}
		page := items(list)
		for i := range page {
			item := page[i] // not a pointer into the page, which would keep all of it
			kept, err := keep(&item)
			if err != nil {
				return nil, err
			}
			if kept != nil {
				all = append(all, kept)
			}
		}
		if token = list.GetContinue(); token == "" {
			return all, nil
		}
	}
}

func made[T any]() *T { return new(T) }

func whole[T any](o *T) (*T, error) { return o, nil }

func node(n *corev1.Node) (*corev1.Node, error) {
	stripped, err := scheduler.StripNode(n)
	if err != nil {
		return nil, err
	}
	return stripped.(*corev1.Node), nil
}

// pod leaves out those of others that have ended: they take no capacity.
func pod(p *corev1.Pod) (*corev1.Pod, error) {
	ended := p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
	if ended && p.Labels[graph.LabelScalingGroup] == "" {
		return nil, nil
	}
	stripped, err := scheduler.StripPod(p)
	if err != nil {
		return nil, err
	}
	return stripped.(*corev1.Pod), nil
}
