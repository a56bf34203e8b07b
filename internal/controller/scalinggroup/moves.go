// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalinggroup

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/controller/statuspatch"
	"github.com/trellis-k8s/trellis/internal/leaving"
	"github.com/trellis-k8s/trellis/internal/limit"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/rollout"
)

// DefaultMoveTimeout is how long a replica that is to leave its nodes waits for its successor.
const DefaultMoveTimeout = 10 * time.Minute

// maxMoveWhy bounds why a replica is to leave, in bytes.
const maxMoveWhy = 512

// A replica is to leave when a node of it is to be removed, the eviction of a pod of it was requested, or its place is to be freed for a
// deployment that waits (package leaving). All of it is in the API: on the node, and in an annotation of the pod. The status stores since
// when, and when the replica goes without a successor; it is written before a successor is created or a replica deleted.

// lookForMoves brings the moves in the status up to date with nodes and pods.
func (r *Reconciler) lookForMoves(ctx context.Context, o *observed) {
	sg, now := o.sg, r.refusals.clock()
	before := sg.Status.Moves
	sg.Status.Moves = nil
	if sg.Spec.Moves != trellisv1alpha1.MovesNever {
		lacks, _ := r.lacks.counts(client.ObjectKeyFromObject(sg), now)
		noQuota := lacks || noQuotaForSuccessors(o.replicas)
		for _, ordinal := range sortedOrdinals(o.replicas) {
			leaves := r.whyLeaves(ctx, sg, o.replicas[ordinal], now)
			if leaves.why == "" || len(sg.Status.Moves) == trellisv1alpha1.MaxMoves {
				continue
			}
			move := r.moveOf(before, ordinal, now)
			move.Why = limit.Text(leaves.why, maxMoveWhy)
			if leaves.forOthers {
				move.InPlace, move.InPlaceAt = false, metav1.NewTime(leaves.until.Add(r.moveTimeout()))
			} else {
				move.InPlace = move.InPlace || noQuota || !now.Before(move.InPlaceAt.Time)
			}
			sg.Status.Moves = append(sg.Status.Moves, move)
			if !leaves.until.IsZero() {
				o.moves = earliest(o.moves, max(leaves.until.Sub(now), time.Millisecond))
			}
		}
	}
	if hasMoved(before, o.replicas) {
		r.waitAnew(sg.Status.Moves, now)
	}
	for i := range sg.Status.Moves {
		if move := &sg.Status.Moves[i]; !move.InPlace {
			o.moves = earliest(o.moves, move.InPlaceAt.Sub(now))
		}
	}
	o.moved = !equality.Semantic.DeepEqual(before, sg.Status.Moves)
}

// moveOf is the stored move of a replica, or a new one. A stored time further ahead than the timeout is that of another clock.
func (r *Reconciler) moveOf(stored []trellisv1alpha1.ReplicaMove, ordinal int32, now time.Time) trellisv1alpha1.ReplicaMove {
	latest := metav1.NewTime(now.Add(r.moveTimeout()).Truncate(time.Second))
	for _, move := range stored {
		if move.Replica == ordinal {
			if latest.Before(&move.InPlaceAt) {
				move.InPlaceAt = latest
			}
			return move
		}
	}
	return trellisv1alpha1.ReplicaMove{Replica: ordinal, Since: metav1.NewTime(now.Truncate(time.Second)), InPlaceAt: latest}
}

func (r *Reconciler) moveTimeout() time.Duration { return cmp.Or(r.MoveTimeout, DefaultMoveTimeout) }

// hasMoved reports whether a replica has gone that had a successor: there is capacity, and it is the turn of the next one.
func hasMoved(before []trellisv1alpha1.ReplicaMove, replicas map[int32]*replica) bool {
	return slices.ContainsFunc(before, func(move trellisv1alpha1.ReplicaMove) bool {
		one := replicas[move.Replica]
		return !move.InPlace && (one == nil || !one.there())
	})
}

// waitAnew gives the replicas that wait for their turn the full time.
func (r *Reconciler) waitAnew(moves []trellisv1alpha1.ReplicaMove, now time.Time) {
	for i := range moves {
		if !moves[i].InPlace {
			moves[i].InPlaceAt = metav1.NewTime(now.Add(r.moveTimeout()).Truncate(time.Second))
		}
	}
}

// noQuotaForSuccessors reports whether a replica that waits gets no quota of Kueue: replicas move in place then, each within its own quota.
func noQuotaForSuccessors(replicas map[int32]*replica) bool {
	for _, one := range replicas {
		if state, _ := one.state(); one.noQuota && !one.outdated && (state == rollout.Waiting || state == rollout.Partial) {
			return true
		}
	}
	return false
}

// waitsForSuccessors reports whether a replica of the group waits for its successor.
func waitsForSuccessors(sg *trellisv1alpha1.ScalingGroup) bool {
	return slices.ContainsFunc(sg.Status.Moves, func(move trellisv1alpha1.ReplicaMove) bool { return !move.InPlace })
}

// leaves is why a replica is to leave its nodes; the zero value when it stays.
type leaves struct {
	why string
	// until is how long that counts if it is not repeated; zero: until something changes.
	until time.Time
	// forOthers: only a place for another deployment is to be freed. The replica stays until its successor serves, however long that takes.
	forOthers bool
}

// whyLeaves says why a replica is to leave its nodes. A drain or an eviction counts before a place for others.
func (r *Reconciler) whyLeaves(ctx context.Context, sg *trellisv1alpha1.ScalingGroup, one *replica, now time.Time) (l leaves) {
	for _, index := range one.indexes() {
		pod := one.pods[index]
		node := r.nodes().of(ctx, pod)
		if node == nil {
			continue
		}
		of := r.Leaving.Why(node)
		if of != "" && (pinned(sg) || repels(node, pod)) {
			return leaves{why: of}
		}
		eviction, requested := leaving.EvictionOf(pod)
		if !requested {
			continue
		}
		counts, end := eviction.Counts(now, of != "" || node.Spec.Unschedulable)
		switch {
		case !counts || eviction.For != "" && l.why != "" && !l.forOthers:
		case eviction.For != "":
			l = leaves{fmt.Sprintf("a place for %s is freed", eviction.For), later(l.until, end), true}
		case l.forOthers:
			l = leaves{why: evictionOf(pod), until: end}
		default:
			l.why, l.until = evictionOf(pod), later(l.until, end)
		}
	}
	return l
}

func evictionOf(pod *corev1.Pod) string {
	return fmt.Sprintf("the eviction of pod %s was requested", pod.Name)
}

// later of two times.
func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// pinned reports whether Trellis chooses the hosts of a group's pods: none of them returns to a node that is to be removed.
func pinned(sg *trellisv1alpha1.ScalingGroup) bool {
	return render.Gated(sg) && sg.Spec.Provider == specs.Gates.Name
}

// repels reports whether a node takes no pods like this one: their scheduler would bring a successor back otherwise.
func repels(node *corev1.Node, pod *corev1.Pod) bool {
	closed := corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}
	untolerated := func(taint *corev1.Taint) bool {
		return taint.Effect != corev1.TaintEffectPreferNoSchedule &&
			!corev1helpers.TolerationsTolerateTaint(klog.Logger{}, pod.Spec.Tolerations, taint, false)
	}
	if node.Spec.Unschedulable && untolerated(&closed) {
		return true
	}
	return slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool { return untolerated(&taint) })
}

// rememberMoves stores the moves before they are acted on.
func (r *Reconciler) rememberMoves(ctx context.Context, o observed) error {
	r.moving.note(types.NamespacedName{Namespace: o.sg.Namespace, Name: o.sg.Name}, o.sg.Status.Moves)
	if !o.moved {
		return nil
	}
	_, err := statuspatch.Write(ctx, r.Client, o.sg.DeepCopy(), o.sg.Status)
	return wrapped(err, "writing moves into the status")
}
