// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalinggroup

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	quotacontroller "github.com/trellis-k8s/trellis/internal/controller/quota"
	"github.com/trellis-k8s/trellis/internal/quota"
	"github.com/trellis-k8s/trellis/internal/rollout"
	"github.com/trellis-k8s/trellis/internal/scheduler"
)

// dependsOnOthers says that the pods of a group are made, or held, by another system.
func (r *Reconciler) dependsOnOthers(sg *trellisv1alpha1.ScalingGroup) bool {
	return r.Providers.Workload(sg.Spec.Provider) != nil || sg.Spec.Workload != "" || quota.QueueOf(sg) != ""
}

// stepsFor turns a plan into steps that the group's provider, and its queue of Kueue, can follow. own are the group's pods.
func (r *Reconciler) stepsFor(ctx context.Context, sg *trellisv1alpha1.ScalingGroup, own []*corev1.Pod, replicas map[int32]*replica, next rollout.Plan) (steps, error) {
	s := r.fit(ctx, sg, replicas, next)
	err := r.enqueue(ctx, sg, own, replicas, &s)
	return s, err
}

// enqueue has new pods of a group that is in a queue of Kueue join their Workloads. While these cannot be read no pod is made: without its Workload one
// would have no quota, or end those that have. Replicas that have not begun, and are not as the queue wants them now, are recreated.
func (r *Reconciler) enqueue(ctx context.Context, sg *trellisv1alpha1.ScalingGroup, own []*corev1.Pod, replicas map[int32]*replica, s *steps) error {
	queued := func(pod *corev1.Pod) bool { return quota.WorkloadOf(pod) != "" }
	if quota.QueueOf(sg) == "" && !slices.ContainsFunc(own, queued) {
		return nil
	}
	s.replaceUnqueued(sg, replicas)
	if quota.QueueOf(sg) == "" || len(s.create)+len(s.make) == 0 {
		return nil
	}
	s.make = nil // the pods of sets are Kueue's own matter
	reader, _ := quotacontroller.Reader(ctx, r.Providers)
	if reader == nil {
		s.create = nil
		return nil
	}
	groups, err := r.groupsOf(ctx, sg)
	if err != nil {
		return err
	}
	stored, err := quotacontroller.Workload(ctx, reader, types.NamespacedName{Namespace: sg.Namespace, Name: quota.BaseOf(groups).Name})
	if err != nil {
		return err
	}
	if stored != nil && (stored.DeletionTimestamp != nil || stored.Finished()) {
		s.create = nil // its end brings the next reconcile
		return nil
	}
	joining := quota.Join(sg, groups, own, stored)
	for _, pod := range s.create {
		joining.Add(pod)
	}
	return nil
}

// groupsOf are all scaling groups of the group's deployment.
func (r *Reconciler) groupsOf(ctx context.Context, sg *trellisv1alpha1.ScalingGroup) ([]*trellisv1alpha1.ScalingGroup, error) {
	owner := metav1.GetControllerOf(sg)
	if owner == nil {
		return []*trellisv1alpha1.ScalingGroup{sg}, nil
	}
	list := &trellisv1alpha1.ScalingGroupList{}
	if err := r.Client.List(ctx, list, client.InNamespace(sg.Namespace), client.MatchingFields{scheduler.IndexGroupsByGraph: string(owner.UID)},
		client.DisableReadYourWritesConsistency); err != nil {
		return nil, fmt.Errorf("listing the scaling groups of the graph: %w", err)
	}
	groups := make([]*trellisv1alpha1.ScalingGroup, 0, len(list.Items))
	for i := range list.Items {
		groups = append(groups, &list.Items[i])
	}
	return groups, nil
}

// replaceUnqueued has replicas recreated of which nothing has begun and whose pods wait in another queue than the group, or in one although the group is in
// none, or the other way round.
func (s *steps) replaceUnqueued(sg *trellisv1alpha1.ScalingGroup, replicas map[int32]*replica) {
	for _, ordinal := range slices.Sorted(maps.Keys(replicas)) {
		pods := replicas[ordinal].living()
		begun := func(pod *corev1.Pod) bool { return len(pod.Spec.SchedulingGates) == 0 }
		suits := func(pod *corev1.Pod) bool { return quota.Suits(sg, pod) }
		if len(pods) > 0 && !slices.ContainsFunc(pods, begun) && slices.ContainsFunc(pods, func(pod *corev1.Pod) bool { return !suits(pod) }) {
			s.replace(sg, replicas[ordinal], "its deployment is in another queue of Kueue, or in none any more")
		}
	}
}
