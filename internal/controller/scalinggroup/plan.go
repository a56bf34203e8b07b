// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalinggroup

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/engine/gates"
	"github.com/trellis-k8s/trellis/internal/graph"
)

// maxUnavailable is how many replicas a rolling update may take down at once (design §4.15).
const maxUnavailable = 1

// replica is one replica as its pods show it.
type replica struct {
	ordinal int32
	// pods that live, by index; terminating ones are in leaving, ended ones (Failed, Succeeded) and those whose node is gone in lost.
	pods          map[int32]*corev1.Pod
	leaving, lost []*corev1.Pod
}

// steps are what one reconcile has to do. Every pod to delete is named with a note why.
type steps struct {
	create []*corev1.Pod
	delete []deletion
}

type deletion struct {
	pod *corev1.Pod
	why string
	// force: no kubelet is there to confirm the end of the pod.
	force bool
}

// replicasOf sorts the group's pods into replicas by ordinal; nodeGone says that a pod's node does not exist any more.
func replicasOf(pods []*corev1.Pod, nodeGone func(*corev1.Pod) bool) map[int32]*replica {
	out := map[int32]*replica{}
	for _, pod := range pods {
		ordinal, index, ok := graph.ReplicaOf(pod)
		if !ok {
			continue
		}
		r := out[ordinal]
		if r == nil {
			r = &replica{ordinal: ordinal, pods: map[int32]*corev1.Pod{}}
			out[ordinal] = r
		}
		switch {
		case nodeGone(pod), pod.DeletionTimestamp == nil && ended(pod):
			r.lost = append(r.lost, pod)
		case pod.DeletionTimestamp != nil:
			r.leaving = append(r.leaving, pod)
		default:
			r.pods[index] = pod
		}
	}
	return out
}

func ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
}

// plan decides what to do next. It is level-based: the same pods always give the same steps.
//
//   - replicas beyond the wanted number go, whole
//   - a replica that lost a member after its release goes, whole, and is made anew once all of it is gone
//   - a replica that was never released only gets its missing pods
//   - replicas of an older revision go one after the other, those that do not serve first
func plan(sg *trellisv1alpha1.ScalingGroup, replicas map[int32]*replica) steps {
	var s steps
	for _, ordinal := range sortedOrdinals(replicas) {
		if ordinal >= sg.Spec.Replicas {
			s.remove(replicas[ordinal], "the service is scaled in")
		}
	}
	for ordinal := range sg.Spec.Replicas {
		s.repair(sg, ordinal, replicas[ordinal])
	}
	s.roll(sg, replicas)
	return s
}

func sortedOrdinals(replicas map[int32]*replica) []int32 {
	out := make([]int32, 0, len(replicas))
	for ordinal := range replicas {
		out = append(out, ordinal)
	}
	slices.Sort(out)
	return out
}

// remove deletes every pod of the replica that is not on its way already.
func (s *steps) remove(r *replica, why string) {
	for _, pod := range r.lost {
		s.delete = append(s.delete, deletion{pod: pod, why: why, force: pod.Spec.NodeName != "" && !ended(pod)})
	}
	for _, index := range sortedIndexes(r.pods) {
		s.delete = append(s.delete, deletion{pod: r.pods[index], why: why})
	}
}

func sortedIndexes(pods map[int32]*corev1.Pod) []int32 {
	out := make([]int32, 0, len(pods))
	for index := range pods {
		out = append(out, index)
	}
	slices.Sort(out)
	return out
}

func (s *steps) repair(sg *trellisv1alpha1.ScalingGroup, ordinal int32, r *replica) {
	size := graph.PodsPerReplica(sg)
	if r == nil {
		r = &replica{ordinal: ordinal}
	}
	missing := int(size) > len(r.pods)
	switch {
	case len(r.lost) > 0:
		s.remove(r, "a pod of the replica ended or lost its node")
	case len(r.leaving) > 0 || (missing && r.released() && size > 1):
		s.remove(r, "a pod of the replica is gone, and a replica lives and dies whole")
	case missing:
		for index := range size {
			if r.pods[index] == nil {
				s.create = append(s.create, graph.BuildPod(sg, ordinal, index))
			}
		}
	}
}

// released says that some of the replica's pods were let go: before that, all of them were there.
func (r *replica) released() bool {
	for _, pod := range r.pods {
		if !gates.Closed(pod) {
			return true
		}
	}
	return false
}

// roll replaces replicas of an older revision.
func (s *steps) roll(sg *trellisv1alpha1.ScalingGroup, replicas map[int32]*replica) {
	unavailable := 0
	var serving []*replica
	for ordinal := range sg.Spec.Replicas {
		r := replicas[ordinal]
		if r == nil || !r.available(sg) {
			unavailable++
			if r != nil && r.whole(sg) && r.outdated(sg) {
				s.remove(r, "it runs an older revision")
			}
			continue
		}
		if r.outdated(sg) {
			serving = append(serving, r)
		}
	}
	slices.SortFunc(serving, func(a, b *replica) int { return cmp.Compare(b.ordinal, a.ordinal) })
	for _, r := range serving[:min(len(serving), max(0, maxUnavailable-unavailable))] {
		s.remove(r, "it runs an older revision")
	}
}

func (r *replica) outdated(sg *trellisv1alpha1.ScalingGroup) bool {
	for _, pod := range r.pods {
		if pod.Labels[graph.LabelRevision] != sg.Spec.Revision {
			return true
		}
	}
	return false
}

// whole: every pod is there, none on its way out.
func (r *replica) whole(sg *trellisv1alpha1.ScalingGroup) bool {
	return len(r.pods) == int(graph.PodsPerReplica(sg)) && len(r.leaving) == 0 && len(r.lost) == 0
}

func (r *replica) all(is func(*corev1.Pod) bool) bool {
	for _, pod := range r.pods {
		if !is(pod) {
			return false
		}
	}
	return true
}

func (r *replica) available(sg *trellisv1alpha1.ScalingGroup) bool {
	return r.whole(sg) && r.all(podReady)
}

func podReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

func podBound(pod *corev1.Pod) bool { return pod.Spec.NodeName != "" }
