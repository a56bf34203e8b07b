// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/render"
)

// unrequested lists the names of missing Workloads that a deployment needs for existing pods or for pods that are still to be created.
// Replicas that run without a Workload, because they were created before the deployment had a queue, need no Workload.
func (o *Observation) unrequested() []string {
	needed := map[string]bool{}
	for _, sg := range o.Groups {
		pods := membersOf(sg, o.Pods)
		join, unqueued := Join(sg, o.Groups, remaining(pods), o.Workloads), unqueued(pods)
		for _, ordinal := range gang.Ordinals(sg, pods, o.Record.Replicas(sg.Spec.Component)) {
			if !unqueued[int32(ordinal)] {
				needed[join.workloadFor(int32(ordinal))] = true
			}
		}
	}
	for _, w := range o.Workloads {
		delete(needed, w.Name)
	}
	return slices.Sorted(maps.Keys(needed))
}

// remaining returns the pods that are not terminating.
func remaining(pods []*corev1.Pod) []*corev1.Pod {
	return slices.DeleteFunc(slices.Clone(pods), func(pod *corev1.Pod) bool { return pod.DeletionTimestamp != nil })
}

// unqueued returns the ordinals of replicas with pods but without a Workload.
func unqueued(pods []*corev1.Pod) map[int32]bool {
	out := map[int32]bool{}
	for _, pod := range remaining(pods) {
		ordinal, _, _ := render.ReplicaOf(pod)
		if without, known := out[ordinal]; !known || without {
			out[ordinal] = WorkloadOf(pod) == ""
		}
	}
	return out
}

// unused returns the Workload of the first replicas and the number of pods for which the Workload has unused quota. The quota stays unused
// because no other replica will join the Workload, and Kueue does not allow a Workload to shrink. unused returns nil while pods of the
// deployment are being replaced.
func (o *Observation) unused() (base *Workload, pods int32) {
	base = BaseAmong(o.Workloads, o.Groups)
	if base == nil || slices.ContainsFunc(o.Groups, func(sg *trellisv1alpha1.ScalingGroup) bool { return !o.complete(sg) }) {
		return nil, 0
	}
	pods = podsOf(base.Spec.PodSets)
	for _, pod := range o.Pods {
		if WorkloadOf(pod) == base.Name {
			pods--
		}
	}
	if pods <= 0 {
		return nil, 0
	}
	return base, pods
}

// complete reports whether a scaling group has all pods of all its replicas, no other pods, and no terminating pod.
func (o *Observation) complete(sg *trellisv1alpha1.ScalingGroup) bool {
	pods := membersOf(sg, o.Pods)
	ends := func(pod *corev1.Pod) bool { return pod.DeletionTimestamp != nil }
	return len(pods) == int(sg.Spec.Replicas*render.PodsPerReplica(sg)) && !slices.ContainsFunc(pods, ends)
}
