// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalinggroup

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/controller/creationturns"
)

// After a create was refused, for example by a quota, a group waits before it creates pods again. The delay doubles with each refusal.
// Events of the group's own pods do not shorten the delay. A change of the group's spec, or a quota that allows more, ends the delay. If
// gangs are created in turn, successors of replicas that served have a separate delay, so that a refused scale-out does not delay the
// successors.
const (
	firstDelay = time.Second
	maxDelay   = 30 * time.Second
)

// allowance describes what blocks the creation of pods.
type allowance struct {
	// again is the time until pods may be created; 0: now. refused is the error of the last refused create.
	again   time.Duration
	refused error
}

// refusals stores the refused creates, by group. The zero value is ready to use.
type refusals struct {
	mu      sync.Mutex
	byGroup map[refusedGangs]refusal
	// first is the first delay; 0 means firstDelay.
	first time.Duration
	// now replaces the clock, for tests.
	now func() time.Time
}

// refusedGangs identifies the gangs of a group that share a delay: its successors, or its other gangs.
type refusedGangs struct {
	group      types.NamespacedName
	successors bool
}

// gangsOf returns the selected gangs of a group.
func gangsOf(group types.NamespacedName, which creationturns.Rests) (out []refusedGangs) {
	if which.Successors {
		out = append(out, refusedGangs{group, true})
	}
	if which.Others {
		out = append(out, refusedGangs{group, false})
	}
	return out
}

type refusal struct {
	uid        types.UID
	generation int64
	delay      time.Duration
	until      time.Time
	err        error
}

// note records the result of creating the selected gangs of a group: err, or nil for success.
func (r *refusals) note(sg *trellisv1alpha1.ScalingGroup, which creationturns.Rests, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, key := range gangsOf(client.ObjectKeyFromObject(sg), which) {
		r.noteOne(sg, key, err)
	}
}

// noteOne records the result for the gangs of a key, which share a delay. Called with the lock held.
func (r *refusals) noteOne(sg *trellisv1alpha1.ScalingGroup, key refusedGangs, err error) {
	if err == nil {
		delete(r.byGroup, key)
		return
	}
	delay := cmp.Or(r.first, firstDelay)
	if last, ok := r.byGroup[key]; ok && last.uid == sg.UID && last.generation == sg.Generation {
		delay = min(2*last.delay, max(delay, maxDelay))
	}
	if r.byGroup == nil {
		r.byGroup = map[refusedGangs]refusal{}
	}
	r.byGroup[key] = refusal{uid: sg.UID, generation: sg.Generation, delay: delay, until: r.clock().Add(delay), err: err}
}

// wait returns the remaining wait and the refusal of a group whose gangs are not created in turn.
func (r *refusals) wait(sg *trellisv1alpha1.ScalingGroup) allowance {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.waitOf(sg, false)
}

// rests returns which gangs of the group have to wait, the time until the first of them may be created, and the refusal.
func (r *refusals) rests(sg *trellisv1alpha1.ScalingGroup) (which creationturns.Rests, of allowance) {
	r.mu.Lock()
	defer r.mu.Unlock()
	successors, others := r.waitOf(sg, true), r.waitOf(sg, false)
	of = allowance{again: earliest(successors.again, others.again), refused: cmp.Or(successors.refused, others.refused)}
	return creationturns.Rests{Successors: successors.again > 0, Others: others.again > 0}, of
}

// waitOf returns how long successors, or the other gangs, of a group have to wait. Called with the lock held.
func (r *refusals) waitOf(sg *trellisv1alpha1.ScalingGroup, successors bool) allowance {
	last, ok := r.byGroup[refusedGangs{client.ObjectKeyFromObject(sg), successors}]
	if left := last.until.Sub(r.clock()); ok && last.uid == sg.UID && last.generation == sg.Generation && left > 0 {
		return allowance{again: left, refused: last.err}
	}
	return allowance{}
}

// has reports whether the last attempt to create pods of a group was refused.
func (r *refusals) has(sg *trellisv1alpha1.ScalingGroup) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(gangsOf(client.ObjectKeyFromObject(sg), creationturns.All), func(key refusedGangs) bool {
		last, ok := r.byGroup[key]
		return ok && last.uid == sg.UID
	})
}

// retryIn ends the delays of all groups of a namespace, because the quota that refused their creates may allow them now.
func (r *refusals) retryIn(namespace string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, last := range r.byGroup {
		if key.group.Namespace == namespace {
			last.until = time.Time{}
			r.byGroup[key] = last
		}
	}
}

func (r *refusals) forget(group types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, key := range gangsOf(group, creationturns.All) {
		delete(r.byGroup, key)
	}
}

func (r *refusals) clock() time.Time {
	if r.now != nil {
		return r.now()
	}
	return time.Now()
}

// easedBy returns the scaling groups to reconcile after a quota of their namespace allows more: the groups that may create pods or have to
// delete pods now, or all waiting groups if no quota is left.
func (r *Reconciler) easedBy(ctx context.Context, quota client.Object) []reconcile.Request {
	quotas, err := quotasOfPods(ctx, r.Client, quota.GetNamespace())
	if err != nil {
		log.FromContext(ctx).Error(err, "listing the quotas of a namespace of which one allows more", "quota", quota.GetName())
		return nil
	}
	r.refusals.retryIn(quota.GetNamespace())
	var out []reconcile.Request
	for _, group := range r.turns.Eased(quota.GetNamespace(), quotas) {
		out = append(out, reconcile.Request{NamespacedName: group})
	}
	return out
}

// tellTurns returns a channel that delivers the groups that have to be reconciled because the turns of their namespace changed.
func (r *Reconciler) tellTurns() <-chan event.GenericEvent {
	told := make(chan event.GenericEvent, 4096)
	r.turns.Tell = func(group types.NamespacedName) {
		about := &trellisv1alpha1.ScalingGroup{ObjectMeta: metav1.ObjectMeta{Namespace: group.Namespace, Name: group.Name}}
		told <- event.GenericEvent{Object: about}
	}
	return told
}
