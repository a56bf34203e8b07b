// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalinggroup

import (
	"cmp"
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
)

// A group whose creates were refused, by a quota for example, is not tried again before a delay that doubles with each refusal. Events of
// the group's own pods do not shorten it; a change of the group's spec, and a quota that allows more, do.
const (
	firstDelay = time.Second
	maxDelay   = 30 * time.Second
)

// allowance describes what blocks making pods.
type allowance struct {
	// again is the time until the next try, 0 when it may be now; refused is what the API server said last.
	again   time.Duration
	refused error
}

// refusals remembers the groups whose creates were refused. The zero value is ready to use.
type refusals struct {
	mu      sync.Mutex
	byGroup map[types.NamespacedName]refusal
	// first replaces firstDelay, when it is not 0.
	first time.Duration
	// now replaces the clock, for tests.
	now func() time.Time
}

type refusal struct {
	uid        types.UID
	generation int64
	delay      time.Duration
	until      time.Time
	err        error
}

// note takes over the outcome of a try.
func (r *refusals) note(sg *trellisv1alpha1.ScalingGroup, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := client.ObjectKeyFromObject(sg)
	if err == nil {
		delete(r.byGroup, key)
		return
	}
	delay := cmp.Or(r.first, firstDelay)
	if last, ok := r.byGroup[key]; ok && last.uid == sg.UID && last.generation == sg.Generation {
		delay = min(2*last.delay, max(delay, maxDelay))
	}
	if r.byGroup == nil {
		r.byGroup = map[types.NamespacedName]refusal{}
	}
	r.byGroup[key] = refusal{uid: sg.UID, generation: sg.Generation, delay: delay, until: r.clock().Add(delay), err: err}
}

// wait returns how long the group has to wait, and for which refusal.
func (r *refusals) wait(sg *trellisv1alpha1.ScalingGroup) allowance {
	r.mu.Lock()
	defer r.mu.Unlock()
	last, ok := r.byGroup[client.ObjectKeyFromObject(sg)]
	if left := last.until.Sub(r.clock()); ok && last.uid == sg.UID && last.generation == sg.Generation && left > 0 {
		return allowance{again: left, refused: last.err}
	}
	return allowance{}
}

// has reports whether the last try was refused.
func (r *refusals) has(sg *trellisv1alpha1.ScalingGroup) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	last, ok := r.byGroup[client.ObjectKeyFromObject(sg)]
	return ok && last.uid == sg.UID
}

// retry ends the wait of a group: what refused its creates may allow them now.
func (r *refusals) retry(group types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if last, ok := r.byGroup[group]; ok {
		last.until = time.Time{}
		r.byGroup[group] = last
	}
}

func (r *refusals) forget(group types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.byGroup, group)
}

func (r *refusals) clock() time.Time {
	if r.now != nil {
		return r.now()
	}
	return time.Now()
}

// refusedIn are the scaling groups of a quota's namespace whose pods the API server refuses.
func (r *Reconciler) refusedIn(ctx context.Context, quota client.Object) []reconcile.Request {
	groups := &trellisv1alpha1.ScalingGroupList{}
	if err := r.Client.List(ctx, groups, client.InNamespace(quota.GetNamespace())); err != nil {
		log.FromContext(ctx).Error(err, "listing the scaling groups of a namespace whose quota allows more", "quota", quota.GetName())
		return nil
	}
	var out []reconcile.Request
	for i := range groups.Items {
		if sg := &groups.Items[i]; meta.IsStatusConditionFalse(sg.Status.Conditions, trellisv1alpha1.ConditionPodsInSync) {
			r.refusals.retry(client.ObjectKeyFromObject(sg))
			out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(sg)})
		}
	}
	return out
}
