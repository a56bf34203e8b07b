// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalinggroup

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/rollout"
)

// replica is one replica as its pods show it.
type replica struct {
	ordinal int32
	// size is how many pods make it whole, outdated that it has to be replaced.
	size     int
	outdated bool
	// notAccepted is why an update does not count on the replica yet, although its pods are Ready; "" where it does.
	notAccepted string
	// generation of workers that the pods are of; "" for none.
	generation string
	// pods that live, by index; terminating ones are in leaving, ended ones (Failed, Succeeded) and those whose node is gone in lost.
	pods          map[int32]*corev1.Pod
	leaving, lost []*corev1.Pod
	// notEnding are the pods in leaving that do not end in time, in words. lostNode: the node of one of them is not ready, and has not been
	// for long.
	notEnding []string
	lostNode  bool
	// causes are why pods are not Ready whose status does not say it, by UID.
	causes map[types.UID]podCause
	// noQuota: it waits for quota that its queue does not have. keepsQuota: a successor of the current revision gets the quota that it has.
	noQuota, keepsQuota bool
	// excess orders the replicas of a role when some are scaled in; see [gang.Excess].
	excess int
	// neighbours counts the pods of other replicas, of any graph, in its domain.
	neighbours int
	// beingMade: a read past the cache shows further pods of the replica, which was made in its place.
	beingMade bool
	// misplaced is why the replica, which was made in its place, cannot stay there; "" where it can.
	misplaced string
	// set is what the pods come from when Trellis does not make them itself; nil when there is none, or it is on its way out.
	set client.Object
}

// addSets adds to the replicas which sets there are. Pods of a set that is being deleted go with it, whether or not they are being deleted
// yet.
func addSets(sg *trellisv1alpha1.ScalingGroup, replicas map[int32]*replica, sets map[int32]client.Object) {
	for ordinal, set := range sets {
		r := replicas[ordinal]
		if r == nil {
			r = &replica{ordinal: ordinal, pods: map[int32]*corev1.Pod{}}
			replicas[ordinal] = r
		}
		r.size = max(r.size, render.ReplicaSize(sg, set))
		r.outdated = r.outdated || render.Outdated(sg, set)
		if set.GetDeletionTimestamp() == nil {
			r.set = set
			continue
		}
		for _, index := range r.indexes() {
			r.leaving = append(r.leaving, r.pods[index])
		}
		clear(r.pods)
	}
}

// replicasOf sorts the group's pods into replicas by ordinal; nodeGone says that a pod's node does not exist any more.
func replicasOf(sg *trellisv1alpha1.ScalingGroup, pods []*corev1.Pod, nodeGone func(*corev1.Pod) bool) map[int32]*replica {
	out := map[int32]*replica{}
	for _, pod := range pods {
		ordinal, index, ok := render.ReplicaOf(pod)
		if !ok {
			continue
		}
		r := out[ordinal]
		if r == nil {
			r = &replica{ordinal: ordinal, pods: map[int32]*corev1.Pod{}}
			out[ordinal] = r
		}
		r.size = max(r.size, render.ReplicaSize(sg, pod))
		r.outdated = r.outdated || render.Outdated(sg, pod)
		r.generation = pod.Labels[render.LabelWorkerHash]
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

// uids are those of all pods of the replica, those that are leaving or lost among them.
func (r *replica) uids() map[types.UID]bool {
	out := map[types.UID]bool{}
	for _, pod := range slices.Concat(slices.Collect(maps.Values(r.pods)), r.leaving, r.lost) {
		out[pod.UID] = true
	}
	return out
}

func ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
}

// state is the state of the replica for the rollout. One that was never released only lacks pods that are still to be made; one that was
// released has lost a member when it is incomplete.
func (r *replica) state() (state rollout.State, why string) {
	short := len(r.pods) < r.size
	switch {
	case len(r.lost) > 0:
		return rollout.Broken, "a pod of the replica ended or lost its node"
	case len(r.pods) == 0 && r.lostNode:
		return rollout.Lost, ""
	case len(r.pods) == 0 && (r.set == nil || len(r.leaving) > 0):
		return rollout.Leaving, ""
	case r.misplaced != "":
		return rollout.Broken, r.misplaced
	case r.beingMade:
		return rollout.Starting, ""
	case len(r.leaving) > 0 || short && r.released():
		return rollout.Broken, "a pod of the replica is gone; a replica is recreated as a unit"
	case short:
		return rollout.Partial, ""
	case !r.released(), r.nowhere():
		return rollout.Waiting, ""
	case r.available():
		return rollout.Available, ""
	}
	return rollout.Starting, ""
}

// there: some of it exists and is not on its way out.
func (r *replica) there() bool { return len(r.pods) > 0 || r.set != nil }

// released reports whether some of the replica's pods were released: before that, all of them were there.
func (r *replica) released() bool {
	return slices.ContainsFunc(slices.Collect(maps.Values(r.pods)), podReleased)
}

// nowhere: none of the pods has a node. A gate of another controller holds it, or the kube-scheduler was asked and found none.
func (r *replica) nowhere() bool {
	unschedulable := func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable
	}
	return r.all(func(pod *corev1.Pod) bool {
		return !podBound(pod) && (len(pod.Spec.SchedulingGates) > 0 || slices.ContainsFunc(pod.Status.Conditions, unschedulable))
	})
}

func (r *replica) whole() bool {
	return len(r.pods) == r.size && len(r.leaving) == 0 && len(r.lost) == 0
}

func (r *replica) all(is func(*corev1.Pod) bool) bool {
	for _, pod := range r.pods {
		if !is(pod) {
			return false
		}
	}
	return true
}

// created is when the youngest pod was made.
func (r *replica) created() int64 {
	var created int64
	for _, pod := range r.pods {
		created = max(created, pod.CreationTimestamp.Unix())
	}
	return created
}

func (r *replica) indexes() []int32 { return slices.Sorted(maps.Keys(r.pods)) }

func podReleased(pod *corev1.Pod) bool { return !render.GateClosed(pod) }

func podBound(pod *corev1.Pod) bool { return pod.Spec.NodeName != "" }
