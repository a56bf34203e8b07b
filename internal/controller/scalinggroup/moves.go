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

// DefaultMoveTimeout is how long a replica that has to leave its nodes waits for its successor.
const DefaultMoveTimeout = 10 * time.Minute

// maxMoveWhy is the maximum length of the reason of a move, in bytes.
const maxMoveWhy = 512

// A replica has to leave its nodes when one of them is to be removed, when the eviction of one of its pods was requested, or when its place
// is to be freed for a waiting deployment (package leaving). Each of these reasons is stored in the API, on the node or in an annotation of
// the pod. The group's status stores since when the replica has to leave, and when it is removed even without a successor. The status is
// written before a successor is created or a replica is deleted.

// lookForMoves updates the moves in the status from nodes and pods.
func (p *pass) lookForMoves(ctx context.Context) {
	sg, now := p.sg, p.refusals.clock()
	before := sg.Status.Moves
	sg.Status.Moves = nil
	if sg.Spec.Moves != trellisv1alpha1.MovesNever {
		lacks, _ := p.lacks.counts(client.ObjectKeyFromObject(sg), now)
		noQuota := lacks || noQuotaForSuccessors(p.replicas)
		for _, ordinal := range sortedOrdinals(p.replicas) {
			leaves := p.whyLeaves(ctx, p.replicas[ordinal], now)
			if leaves.why == "" || len(sg.Status.Moves) == trellisv1alpha1.MaxMoves {
				continue
			}
			move := p.moveOf(before, ordinal, now)
			move.Why = limit.Text(leaves.why, maxMoveWhy)
			if leaves.forOthers {
				move.InPlace, move.InPlaceAt = false, metav1.NewTime(leaves.until.Add(p.moveTimeout()))
			} else {
				move.InPlace = move.InPlace || noQuota || !now.Before(move.InPlaceAt.Time)
			}
			sg.Status.Moves = append(sg.Status.Moves, move)
			if !leaves.until.IsZero() {
				p.moves = earliest(p.moves, max(leaves.until.Sub(now), time.Millisecond))
			}
		}
	}
	if hasMoved(before, p.replicas) {
		p.waitAnew(now)
	}
	for i := range sg.Status.Moves {
		if move := &sg.Status.Moves[i]; !move.InPlace {
			p.moves = earliest(p.moves, move.InPlaceAt.Sub(now))
		}
	}
	p.moved = !equality.Semantic.DeepEqual(before, sg.Status.Moves)
}

// moveOf returns the stored move of a replica, or a new move. A stored InPlaceAt that is further in the future than the timeout was set by
// another clock, and is limited to the timeout.
func (p *pass) moveOf(stored []trellisv1alpha1.ReplicaMove, ordinal int32, now time.Time) trellisv1alpha1.ReplicaMove {
	latest := metav1.NewTime(now.Add(p.moveTimeout()).Truncate(time.Second))
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

// hasMoved reports whether a replica that waited for its successor is gone. Capacity is then free for the successors of the other replicas.
func hasMoved(before []trellisv1alpha1.ReplicaMove, replicas map[int32]*replica) bool {
	return slices.ContainsFunc(before, func(move trellisv1alpha1.ReplicaMove) bool {
		one := replicas[move.Replica]
		return !move.InPlace && (one == nil || !one.there())
	})
}

// waitAnew restarts the timeouts of the replicas that wait for their successors.
func (p *pass) waitAnew(now time.Time) {
	for i := range p.sg.Status.Moves {
		if move := &p.sg.Status.Moves[i]; !move.InPlace {
			move.InPlaceAt = metav1.NewTime(now.Add(p.moveTimeout()).Truncate(time.Second))
		}
	}
}

// noQuotaForSuccessors reports whether a waiting replica gets no quota from Kueue. Replicas then move in place, each within its own quota.
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

// leaves describes why a replica has to leave its nodes. It is the zero value if the replica stays.
type leaves struct {
	why string
	// until is the time at which the reason expires unless the request is repeated; zero: the reason lasts until the node or the pod
	// changes.
	until time.Time
	// forOthers: the only reason is to free the place for another deployment. The replica stays until its successor serves, however long
	// that takes.
	forOthers bool
}

// whyLeaves returns why a replica has to leave its nodes. If there are several reasons, a drain or an eviction takes precedence over
// freeing a place for another deployment.
func (p *pass) whyLeaves(ctx context.Context, one *replica, now time.Time) (l leaves) {
	for _, index := range one.indexes() {
		pod := one.pods[index]
		node := p.nodes().of(ctx, pod)
		if node == nil {
			continue
		}
		of := p.Leaving.Why(node)
		if of != "" && (pinned(p.sg) || repels(node, pod)) {
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

// later returns the later of two times.
func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// pinned reports whether Trellis chooses the hosts of a group's pods. Trellis places no pod on a node that is to be removed.
func pinned(sg *trellisv1alpha1.ScalingGroup) bool {
	return render.Gated(sg) && sg.Spec.Provider == specs.Gates.Name
}

// repels reports whether the pod does not tolerate the node's taints. If the pod tolerates the taints, the pod's scheduler could bind a
// successor to the same node again.
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

// rememberMoves writes the moves into the status before the controller acts on them.
func (p *pass) rememberMoves(ctx context.Context) error {
	p.moving.note(client.ObjectKeyFromObject(p.sg), p.sg.Status.Moves)
	if !p.moved {
		return nil
	}
	_, err := statuspatch.Write(ctx, p.Client, p.sg.DeepCopy(), p.sg.Status)
	return wrapped(err, "writing moves into the status")
}
