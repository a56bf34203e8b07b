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

// replica is the state of one replica according to its pods.
type replica struct {
	ordinal int32
	// size is the number of pods of the complete replica. outdated: the replica has to be replaced.
	size     int
	outdated bool
	// notAccepted is the reason why an update does not treat the replica as available although its pods are Ready; "" for none.
	notAccepted string
	// generation is the worker generation of the replica's pods; "" for none.
	generation string
	// pods are the live pods, by index. leaving are the terminating pods. lost are the pods that have ended (Failed, Succeeded) or whose
	// node is gone.
	pods          map[int32]*corev1.Pod
	leaving, lost []*corev1.Pod
	// notEnding describes the deleted pods that do not terminate in time. lostNode: the node of an overdue pod is not ready, and HoldFor
	// has passed.
	notEnding []string
	lostNode  bool
	// causes has, by UID, the causes for pods that are not Ready or have ended and whose status names no cause.
	causes map[types.UID]podCause
	// noQuota: the replica waits for quota that its queue does not have. keepsQuota: a successor of the current revision gets the replica's
	// quota.
	noQuota, keepsQuota bool
	// excess is the rank of a prefill or decode replica for a scale-in; see [gang.Excess].
	excess int
	// neighbours counts the pods of other replicas, of any graph, in the replica's domain.
	neighbours int
	// beingMade: a read past the cache shows further pods of the replica, which is being created in place.
	beingMade bool
	// misplaced is the reason why the replica cannot stay in its place; "" if it can.
	misplaced string
	// set is the object from which a maker creates the pods; nil if there is none, it is being deleted, or Trellis creates the pods itself.
	set client.Object
}

// addSets adds the existing sets to the replicas. If a set is being deleted, its pods count as leaving, whether or not they are being
// deleted yet.
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

// replicasOf sorts the group's pods into replicas by ordinal; nodeGone reports whether a pod's node no longer exists.
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

// uids returns the UIDs of all pods of the replica, including leaving and lost pods.
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

// state returns the state of the replica for the rollout. If an incomplete replica was never released, its missing pods are still to be
// created. If it was released, it has lost a pod.
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

// there reports whether pods or the set of the replica exist and are not being deleted.
func (r *replica) there() bool { return len(r.pods) > 0 || r.set != nil }

// released reports whether a pod of the replica was released. A gated pod is released only once all pods of the replica exist.
func (r *replica) released() bool {
	return slices.ContainsFunc(slices.Collect(maps.Values(r.pods)), podReleased)
}

// nowhere reports whether no pod of the replica has a node, and each pod is held by a gate of another controller or was found unschedulable
// by the kube-scheduler.
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

// created returns the creation time of the newest pod, in seconds.
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
