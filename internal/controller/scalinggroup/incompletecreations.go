// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalinggroup

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/render"
)

// Why a replica that was created in place is recreated.
const (
	mixed       = "two operators have created pods of the replica, each in a different place"
	withoutRest = "the rest of its gang could not be created"
)

// lookForCreations finds replicas that were created in place and are not whole, whose gang is not, or whose pods were created in two
// places. What another operator has begun, and not finished, is recreated gated, for that operator may continue. It may have finished
// since the cache was read, so the API server is asked.
func (r *Reconciler) lookForCreations(ctx context.Context, sg *trellisv1alpha1.ScalingGroup, replicas map[int32]*replica) error {
	var live map[int32]map[int32]types.UID
	for _, ordinal := range sortedOrdinals(replicas) {
		one := replicas[ordinal]
		creations, foreign := creationsAmong(one, r.Creations.Ours)
		if len(creations) > 1 {
			one.misplaced = mixed
			r.gate(sg, ordinal)
			continue
		}
		if r.failed(sg, creations) {
			one.misplaced = withoutRest
			continue
		}
		if len(creations) == 0 || len(one.pods) == one.size || len(one.leaving)+len(one.lost) > 0 {
			continue
		}
		if live == nil {
			var err error
			if live, err = r.livePods(ctx, sg); err != nil {
				return err
			}
		}
		if one.beingMade = showsMore(live[ordinal], one); !one.beingMade && foreign {
			r.gate(sg, ordinal)
		}
	}
	return nil
}

// failed reports whether a creation is of a gang of which not all could be created. The create of a pod may have failed and been written,
// and so may the deletion of one.
func (r *Reconciler) failed(sg *trellisv1alpha1.ScalingGroup, creations map[string]bool) bool {
	for creation := range creations {
		if r.Creations != nil && r.Creations.Failed(sg, creation) {
			return true
		}
	}
	return false
}

// creationsAmong are the creations that active pods of a replica are of. foreign: another operator created some.
func creationsAmong(one *replica, ours func(*corev1.Pod) bool) (creations map[string]bool, foreign bool) {
	creations = map[string]bool{}
	for _, pod := range one.pods {
		if creation := pod.Annotations[render.AnnotationCreation]; creation != "" {
			creations[creation] = true
			foreign = foreign || !ours(pod)
		}
	}
	return creations, foreign
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

// gate has a replica created gated from now on.
func (r *Reconciler) gate(sg *trellisv1alpha1.ScalingGroup, ordinal int32) {
	if r.Creations != nil {
		r.Creations.Gate(sg, ordinal)
	}
}

func (r *Reconciler) forgetCreations(group types.NamespacedName) {
	if r.Creations != nil {
		r.Creations.Forget(group)
	}
}
