// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/hack/bench/hall"
	"github.com/trellis-k8s/trellis/internal/render"
)

// DeploymentFiller passes asks of one gang to the operator as deployments, one after the other.
type DeploymentFiller struct {
	cluster *Cluster
	ctx     context.Context
	pods    *pods
}

// FillWithDeployments lets do place asks on the empty cluster, and deletes all objects.
func (c *Cluster) FillWithDeployments(ctx context.Context, do func(*DeploymentFiller) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p, err := c.follow(ctx, boundOnly)
	if err != nil {
		return err
	}
	defer p.events.Stop()
	return errors.Join(do(&DeploymentFiller{cluster: c, ctx: ctx, pods: p}), c.clear(ctx, p))
}

// Place creates a deployment of one gang and waits until all its pods are bound, or the operator reports that there is no capacity.
func (f *DeploymentFiller) Place(a hall.Ask) (hall.Answer, error) {
	dgd := deploymentOf(a)
	if err := f.cluster.c.Create(f.ctx, dgd); err != nil {
		return nil, err
	}
	why, err := f.judged(dgd)
	if err != nil {
		return nil, err
	}
	if why != "" {
		return nil, hall.Refused(why)
	}
	var hosts []string
	err = f.pods.until(f.ctx, a.Name+" is bound", func() bool {
		hosts = hosts[:0]
		for _, pod := range f.pods.byName {
			if pod.Labels[render.LabelGraph] == a.Name && pod.Spec.NodeName != "" {
				hosts = append(hosts, pod.Spec.NodeName)
			}
		}
		return len(hosts) == a.Pods
	})
	slices.Sort(hosts)
	return hall.Answer{hosts}, err
}

// judged waits until the operator has placed a deployment, or returns why it cannot.
func (f *DeploymentFiller) judged(dgd *nvidiav1beta1.DynamoGraphDeployment) (why string, err error) {
	ctx, cancel := context.WithTimeout(f.ctx, patience)
	defer cancel()
	list := &nvidiav1beta1.DynamoGraphDeploymentList{}
	events, err := f.cluster.c.Watch(ctx, list, client.InNamespace(namespace), &client.ListOptions{
		Raw: &metav1.ListOptions{ResourceVersion: dgd.ResourceVersion, FieldSelector: "metadata.name=" + dgd.Name},
	})
	if err != nil {
		return "", err
	}
	defer events.Stop()
	for event := range events.ResultChan() {
		now, is := event.Object.(*nvidiav1beta1.DynamoGraphDeployment)
		if !is {
			return "", fmt.Errorf("watching deployment %s: %v", dgd.Name, event.Object)
		}
		switch placed := meta.FindStatusCondition(now.Status.Conditions, nvidiav1beta1.ConditionPlaced); {
		case placed == nil:
		case placed.Status == metav1.ConditionTrue:
			return "", nil
		case strings.HasPrefix(placed.Reason, "InsufficientCapacity"), placed.Reason == "NeverFits":
			return placed.Message, nil
		}
	}
	return "", fmt.Errorf("the watch of deployment %s has ended: %w", dgd.Name, context.Cause(ctx))
}

// deploymentOf returns a deployment of one gang in one rack.
func deploymentOf(a hall.Ask) *nvidiav1beta1.DynamoGraphDeployment {
	component := multinode(1, a.Pods, a.Each)
	if a.Pods == 1 {
		component.Multinode = nil
	}
	component.Name, component.Type = "worker", nvidiav1beta1.ComponentTypeWorker
	component.PodTemplate = template(a.GPUs)
	dgd := &nvidiav1beta1.DynamoGraphDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: a.Name}}
	dgd.Spec.Components = []nvidiav1beta1.ComponentSpec{component}
	dgd.Spec.TopologyConstraint = &nvidiav1beta1.SpecTopologyConstraint{ClusterTopologyName: topologyName}
	return dgd
}
