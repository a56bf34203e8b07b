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
	"github.com/trellis-k8s/trellis/internal/listing"
	"github.com/trellis-k8s/trellis/internal/render"
)

// Reasons to recreate a replica although its pods run, or may run.
const (
	superseded = "it has a place of a later attempt in its GraphPlacement"
	mixedHosts = "the host names of its pods are of different attempts"
)

// attempts has the placement attempts of a group's replicas.
type attempts struct {
	recorded assignment.Replicas
	// answered has, by ordinal, the attempt in the scheduler's answer to the request to create the replica in place. begun has the ordinals
	// of the replicas whose creation in place has begun.
	answered map[int32]int32
	begun    []int32
}

// next returns the attempt for a replica that is to be created and has no pods.
func (a attempts) next(ordinal int32) int32 {
	return cmp.Or(a.answered[ordinal], a.recorded.Last(ordinal)+1)
}

// lookForCreations sets misplaced for replicas that cannot stay: replicas with released pods of an earlier attempt, which another operator
// instance released or created, and replicas whose pods have host names of different attempts. It sets beingMade for replicas with pods
// that the cache does not show yet.
func (p *pass) lookForCreations(ctx context.Context) (err error) {
	if p.unseen, err = p.unseenCreations(ctx); err != nil {
		return err
	}
	for _, ordinal := range sortedOrdinals(p.replicas) {
		one := p.replicas[ordinal]
		switch {
		case one.earlierThan(p.attempts.recorded.Lowest(ordinal)):
			one.misplaced = superseded
		case one.mixesHosts():
			one.misplaced = mixedHosts
		case one.whole() && !one.released():
			p.Asks.Ungate(p.sg, ordinal)
		default:
			one.beingMade = slices.Contains(p.unseen, ordinal) && len(one.leaving)+len(one.lost) == 0
		}
	}
	return nil
}

// earlierThan reports whether the replica has a released pod of an attempt earlier than the given attempt.
func (r *replica) earlierThan(attempt int32) bool {
	return slices.ContainsFunc(r.active(), func(pod *corev1.Pod) bool {
		of := render.AttemptOf(pod)
		return of > 0 && of < attempt && podReleased(pod)
	})
}

// hostAttempt returns the attempt for the host names of new pods: the attempt in the host names of existing pods, so that all pods of the
// replica find each other, or the given attempt if no pod exists.
func (r *replica) hostAttempt(next int32) int32 {
	if r != nil {
		for _, pod := range r.pods {
			return render.HostAttempt(pod)
		}
	}
	return next
}

// mixesHosts reports whether the host names of the pods contain different attempts, which a stale read of the GraphPlacement can cause.
func (r *replica) mixesHosts() bool {
	seen := map[int32]bool{}
	for _, pod := range r.pods {
		seen[render.HostAttempt(pod)] = true
	}
	return len(seen) > 1
}

// unseenCreations returns, in order, the ordinals of replicas with pods in the API server that the cache does not show. It considers only
// replicas whose creation in place this operator has begun. A cached read waits only for a limited time for the writes of this operator, so
// the cache may still not show the pods.
func (p *pass) unseenCreations(ctx context.Context) (unseen []int32, err error) {
	for _, ordinal := range p.attempts.begun {
		if one := p.replicas[ordinal]; one == nil || len(one.uids()) < one.size {
			unseen = append(unseen, ordinal)
		}
	}
	if len(unseen) == 0 {
		return nil, nil
	}
	live, err := p.livePods(ctx, p.sg)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(unseen, func(ordinal int32) bool { return !showsOthers(live[ordinal], p.replicas[ordinal]) }), nil
}

// showsOthers reports whether live has pods that the cache does not show. live is from a read past the cache. one is the replica in the
// cache; nil if the cache shows none of its pods.
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

// livePods returns the UIDs of a group's pods from the API server, by ordinal and index, without pods that have ended or are being deleted.
func (r *Reconciler) livePods(ctx context.Context, sg *trellisv1alpha1.ScalingGroup) (map[int32]map[int32]types.UID, error) {
	out := map[int32]map[int32]types.UID{}
	items := func(l *corev1.PodList) []corev1.Pod { return l.Items }
	err := listing.Each(ctx, r.Live, &corev1.PodList{}, items, func(pod *corev1.Pod) error {
		ordinal, index, ok := render.ReplicaOf(pod)
		if !ok || pod.DeletionTimestamp != nil || ended(pod) || !metav1.IsControlledBy(pod, sg) {
			return nil
		}
		if out[ordinal] == nil {
			out[ordinal] = map[int32]types.UID{}
		}
		out[ordinal][index] = pod.UID
		return nil
	}, client.InNamespace(sg.Namespace), client.MatchingLabels(render.Selector(sg.Spec.Graph, sg.Name)))
	if err != nil {
		return nil, fmt.Errorf("reading the pods of the group past the cache: %w", err)
	}
	return out, nil
}
