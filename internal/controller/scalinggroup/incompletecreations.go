// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalinggroup

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/assignment"
	"github.com/trellis-k8s/trellis/internal/render"
)

// Why a replica is recreated although its pods run, or may run.
const (
	superseded  = "it has a place of a later attempt in its GraphPlacement"
	withoutRest = "the rest of its gang could not be created"
	mixedHosts  = "the host names of its pods are of different attempts"
)

// attempts are those of the replicas of a group.
type attempts struct {
	recorded assignment.Attempts
	// offered are the attempts of replicas that are to be created in place.
	offered map[int32]int32
}

func (r *Reconciler) attemptsOf(ctx context.Context, sg *trellisv1alpha1.ScalingGroup) (a attempts, err error) {
	a.offered = r.Creations.Attempts(sg)
	a.recorded, err = r.AttemptsOf(ctx, sg)
	return a, err
}

// next is the attempt of a replica without pods that is to be created.
func (a attempts) next(ordinal int32) int32 {
	return cmp.Or(a.offered[ordinal], a.recorded.Last(ordinal)+1)
}

// lookForCreations finds replicas that cannot stay: those with pods of an attempt that does not count any more, which another operator
// released or created, and those of gangs that could not be completed. It also finds those whose pods are being created.
func (r *Reconciler) lookForCreations(ctx context.Context, o observed) error {
	sg, replicas := o.sg, o.replicas
	begun := r.Creations.Begun(sg)
	for _, ordinal := range sortedOrdinals(replicas) {
		one := replicas[ordinal]
		switch {
		case one.earlierThan(o.attempts.recorded.Lowest(ordinal)):
			one.misplaced = superseded
		case one.mixesHosts():
			one.misplaced = mixedHosts
		case slices.ContainsFunc(one.active(), func(pod *corev1.Pod) bool {
			return r.Creations.Failed(sg, pod.Annotations[render.AnnotationGang])
		}):
			one.misplaced = withoutRest
		case one.whole() && !one.released():
			r.Creations.Ungate(sg, ordinal)
		case slices.Contains(begun, ordinal) && len(one.pods) < one.size && len(one.leaving)+len(one.lost) == 0:
			live, err := r.livePods(ctx, sg)
			if err != nil {
				return err
			}
			one.beingMade = showsMore(live[ordinal], one)
		}
	}
	return nil
}

// earlierThan reports whether a released pod of the replica is of an earlier attempt.
func (r *replica) earlierThan(attempt int32) bool {
	return slices.ContainsFunc(r.active(), func(pod *corev1.Pod) bool {
		of := render.AttemptOf(pod)
		return of > 0 && of < attempt && podReleased(pod)
	})
}

// hostAttempt is the attempt in the host names of pods that are to be created: that of the pods that exist, so that they find each other,
// else the next one.
func (r *replica) hostAttempt(next int32) int32 {
	if r != nil {
		for _, pod := range r.pods {
			return render.HostAttempt(pod)
		}
	}
	return next
}

// mixesHosts reports whether the host names of the pods are of different attempts, as a stale read of the record can cause it.
func (r *replica) mixesHosts() bool {
	seen := map[int32]bool{}
	for _, pod := range r.pods {
		seen[render.HostAttempt(pod)] = true
	}
	return len(seen) > 1
}

// unseenCreations are the replicas that this operator has begun to create in place and of which the API server has pods that the cache does
// not show, in order: the cache is further behind than reads wait for it.
func (r *Reconciler) unseenCreations(
	ctx context.Context, sg *trellisv1alpha1.ScalingGroup, replicas map[int32]*replica,
) (unseen []int32, err error) {
	for _, ordinal := range r.Creations.Begun(sg) {
		if one := replicas[ordinal]; one == nil || len(one.uids()) < one.size {
			unseen = append(unseen, ordinal)
		}
	}
	if len(unseen) == 0 {
		return nil, nil
	}
	live, err := r.livePods(ctx, sg)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(unseen, func(ordinal int32) bool { return !showsOthers(live[ordinal], replicas[ordinal]) }), nil
}

// showsOthers reports whether a read past the cache shows pods of a replica that the cache does not. The cache shows no pod of a replica
// that is nil.
func showsOthers(live map[int32]types.UID, one *replica) bool {
	seen := map[types.UID]bool{}
	if one != nil {
		seen = one.uids()
	}
	for _, uid := range live {
		if !seen[uid] {
			return true
		}
	}
	return false
}

// livePods are the pods of a group that the API server has and that are not being deleted, by ordinal and index.
func (r *Reconciler) livePods(ctx context.Context, sg *trellisv1alpha1.ScalingGroup) (map[int32]map[int32]types.UID, error) {
	pods := &corev1.PodList{}
	of := client.MatchingLabels(render.Selector(sg.Spec.Graph, sg.Name))
	if err := r.Live.List(ctx, pods, client.InNamespace(sg.Namespace), of); err != nil {
		return nil, fmt.Errorf("reading the pods of the group past the cache: %w", err)
	}
	out := map[int32]map[int32]types.UID{}
	for i := range pods.Items {
		pod := &pods.Items[i]
		ordinal, index, ok := render.ReplicaOf(pod)
		if !ok || pod.DeletionTimestamp != nil || ended(pod) || !metav1.IsControlledBy(pod, sg) {
			continue
		}
		if out[ordinal] == nil {
			out[ordinal] = map[int32]types.UID{}
		}
		out[ordinal][index] = pod.UID
	}
	return out, nil
}

// showsMore reports whether a read past the cache shows all that the cache has of a replica, and more.
func showsMore(live map[int32]types.UID, one *replica) bool {
	for index, pod := range one.pods {
		if live[index] != pod.UID {
			return false
		}
	}
	return len(live) > len(one.pods)
}

func (r *Reconciler) forgetCreations(group types.NamespacedName) {
	if r.Creations != nil {
		r.Creations.Forget(group)
	}
}
