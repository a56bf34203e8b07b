// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/engine/gates"
	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// recoverAll rebuilds the reservations of every graph before anything is planned: pods that an earlier leader released and that are
// not bound yet own their capacity.
func (s *Scheduler) recoverAll(ctx context.Context) error {
	graphs := &nvidiav1beta1.DynamoGraphDeploymentList{}
	if err := s.reader.List(ctx, graphs); err != nil {
		return fmt.Errorf("listing graphs: %w", err)
	}
	for i := range graphs.Items {
		s.mu.Lock()
		o, err := s.observe(ctx, &graphs.Items[i])
		if err == nil {
			s.recoverReservations(o)
		}
		s.mu.Unlock()
		if err != nil {
			return fmt.Errorf("reading graph %s/%s: %w", graphs.Items[i].Namespace, graphs.Items[i].Name, err)
		}
	}
	return nil
}

// recoverReservations reserves capacity for released, unbound pods that have none. A pod pinned to a host sits there; for pods pinned by
// labels the planner looks for capacity in their domain, which the kube-scheduler will find as well. Called with the lock held.
func (s *Scheduler) recoverReservations(o observed) {
	byGroup := podsByGroup(o.pods)
	for _, sg := range o.groups {
		for path, pods := range s.homeless(sg, byGroup[string(sg.UID)]) {
			s.reserve(levelsOfGroup(sg), parsePath(path), pods)
		}
	}
}

// homeless returns the group's released, unbound pods without a reservation, by pinned path. Those that nothing tries to bind get none.
func (s *Scheduler) homeless(sg *trellisv1alpha1.ScalingGroup, pods []*corev1.Pod) map[string][]*corev1.Pod {
	out := map[string][]*corev1.Pod{}
	for _, pod := range pods {
		if !waitsForScheduler(pod) || s.idle.ended[topology.PodID(pod)] != "" {
			continue
		}
		if _, has := s.cluster.Reserved(topology.PodID(pod)); has {
			continue
		}
		path := levelsOfGroup(sg).PathOf(pod.Spec.NodeSelector).String()
		out[path] = append(out[path], pod)
	}
	return out
}

func (s *Scheduler) reserve(levels topology.Levels, path topology.Path, pods []*corev1.Pod) {
	var free []placement.Pod
	for _, pod := range pods {
		id, shape := topology.PodID(pod), topology.ShapeOf(pod)
		if host := gates.PinnedHost(pod); host != "" {
			s.cluster.AssumePinned(id, host, shape, pod.Spec.NodeSelector)
			continue
		}
		free = append(free, placement.Pod{ID: id, Name: pod.Name, Shape: shape})
	}
	if len(free) == 0 {
		return
	}
	if _, ok := placement.Locate(s.cluster, path, levels, free); ok {
		return
	}
	for _, pod := range free { // not all fit any more: reserve for those that do; the rest will be requeued
		placement.Locate(s.cluster, path, levels, []placement.Pod{pod})
	}
}

func levelsOfGroup(sg *trellisv1alpha1.ScalingGroup) topology.Levels {
	if sg.Spec.Topology == nil {
		return nil
	}
	return LevelsOf(sg.Spec.Topology)
}
