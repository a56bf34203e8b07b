// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/hack/bench/hall"
)

// Filler passes asks to Kubernetes' own gang scheduling, one after the other.
type Filler struct {
	cluster *Cluster
	ctx     context.Context
	pods    *pods
}

// Fill lets do place asks on the empty cluster, and deletes all objects.
func (c *Cluster) Fill(ctx context.Context, do func(*Filler) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p, err := c.follow(ctx)
	if err != nil {
		return err
	}
	defer p.events.Stop()
	return errors.Join(do(&Filler{cluster: c, ctx: ctx, pods: p}), c.clear(ctx, p))
}

// Place creates the groups and pods of an ask and waits until all its pods are bound or one is unschedulable.
func (f *Filler) Place(a hall.Ask) (hall.Answer, error) {
	groups, members := groupsOf(a)
	for _, batch := range [][]client.Object{groups, members} {
		if err := f.cluster.create(f.ctx, batch); err != nil {
			return nil, err
		}
	}
	refused := false
	err := f.pods.until(f.ctx, a.Name+" is bound or refused", func() bool {
		bound := 0
		for _, o := range members {
			pod := f.pods.byName[o.GetName()]
			switch {
			case pod == nil:
			case pod.Spec.NodeName != "":
				bound++
			case unschedulable(pod):
				refused = true
				return true
			}
		}
		return bound == len(members)
	})
	if err != nil {
		return nil, err
	}
	if refused {
		return nil, hall.Refused("the kube-scheduler finds it unschedulable")
	}
	answer := make(hall.Answer, a.Gangs)
	for i, o := range members {
		answer[i/a.Pods] = append(answer[i/a.Pods], f.pods.byName[o.GetName()].Spec.NodeName)
	}
	return answer, nil
}

func unschedulable(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable {
			return true
		}
	}
	return false
}

// groupsOf returns a PodGroup per gang, and a CompositePodGroup for several gangs that share a domain.
func groupsOf(a hall.Ask) (groups, members []client.Object) {
	if a.Gangs > 1 {
		groups = append(groups, &schedulingv1alpha3.CompositePodGroup{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: a.Name},
			Spec: schedulingv1alpha3.CompositePodGroupSpec{
				WorkloadRef: &schedulingv1alpha3.WorkloadReference{WorkloadName: a.Name, TemplateName: "all"},
				SchedulingPolicy: schedulingv1alpha3.CompositePodGroupSchedulingPolicy{
					Gang: &schedulingv1alpha3.CompositeGangSchedulingPolicy{MinGroupCount: int32(a.Gangs)},
				},
				SchedulingConstraints: &schedulingv1alpha3.CompositePodGroupSchedulingConstraints{
					Topology: []schedulingv1alpha3.TopologyConstraint{{Key: a.Whole.Key()}},
				},
			},
		})
	}
	for g := range a.Gangs {
		name := fmt.Sprintf("%s-%d", a.Name, g)
		group := podGroup(name, a.Pods, a.Each)
		if a.Gangs > 1 {
			group.Spec.ParentCompositePodGroupName = &a.Name
			group.Spec.WorkloadRef = &schedulingv1beta1.WorkloadReference{WorkloadName: a.Name, TemplateName: "each"}
		}
		groups = append(groups, group)
		for i := range a.Pods {
			p := barePod(fmt.Sprintf("%s-%d", name, i), name, a.GPUs)
			p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &name}
			members = append(members, p)
		}
	}
	return groups, members
}
