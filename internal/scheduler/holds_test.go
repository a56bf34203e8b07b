// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/quota"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// heldPod is a pod that was bound to the host a0 and is gone; its capacity there is held from the beginning.
func heldPod(b *bench, h *holds) (*corev1.Pod, types.NamespacedName) {
	o := asking(1, 1, 0)
	pod := boundTo(o.Pods[0], "a0")
	b.s.ledger.cluster.SetPod(pod)
	h.begin(b.s.ledger.cluster, pod, "a0", clientKey(o), begin)
	return pod, clientKey(o)
}

// full reports whether a0 has no capacity for one more pod.
func (b *bench) full(like *corev1.Pod) bool {
	_, full := b.s.ledger.cluster.Why("a0", topology.ShapeOf(like))
	return full
}

func TestHeldCapacity(t *testing.T) {
	next := func(pod *corev1.Pod) []placement.Component {
		return []placement.Component{{Waiting: []placement.Replica{{Pods: []placement.Pod{{Name: pod.Name}}}}}}
	}
	for name, tc := range map[string]struct {
		do   func(b *bench, h *holds, pod *corev1.Pod, graph types.NamespacedName)
		full bool
		held bool
	}{
		"is taken": {func(*bench, *holds, *corev1.Pod, types.NamespacedName) {}, true, true},
		"is free for its successor": {func(b *bench, h *holds, pod *corev1.Pod, _ types.NamespacedName) {
			h.lift(b.s.ledger.cluster, "ns", next(pod))
		}, false, true},
		"is not free for one of another namespace": {func(b *bench, h *holds, pod *corev1.Pod, _ types.NamespacedName) {
			h.lift(b.s.ledger.cluster, "other", next(pod))
		}, true, true},
		"is taken again after a plan that was dropped": {func(b *bench, h *holds, pod *corev1.Pod, _ types.NamespacedName) {
			h.lift(b.s.ledger.cluster, "ns", next(pod))
			h.restore(b.s.ledger.cluster)
		}, true, true},
		"ends when its successor was planned": {func(b *bench, h *holds, pod *corev1.Pod, _ types.NamespacedName) {
			h.lift(b.s.ledger.cluster, "ns", next(pod))
			h.end(b.s.ledger.cluster, map[string]*corev1.Pod{"id": pod})
		}, false, false},
		"ends with its graph": {func(b *bench, h *holds, _ *corev1.Pod, graph types.NamespacedName) {
			h.drop(b.s.ledger.cluster, graph)
		}, false, false},
		"does not end with another graph": {func(b *bench, h *holds, _ *corev1.Pod, _ types.NamespacedName) {
			h.drop(b.s.ledger.cluster, types.NamespacedName{Namespace: "ns", Name: "other"})
		}, true, true},
		"lasts its time": {func(b *bench, h *holds, _ *corev1.Pod, _ types.NamespacedName) {
			if next := h.expire(b.s.ledger.cluster, begin.Add(59*time.Second)); next != time.Second {
				b.t.Errorf("the next one ends in %s, want 1s", next)
			}
		}, true, true},
		"ends after its time": {func(b *bench, h *holds, _ *corev1.Pod, _ types.NamespacedName) {
			h.expire(b.s.ledger.cluster, begin.Add(time.Minute))
		}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			b, h := newBench(t, Options{}), newHolds(time.Minute)
			pod, graph := heldPod(b, &h)
			b.s.ledger.cluster.Freed()
			tc.do(b, &h, pod, graph)
			if freed := b.s.ledger.cluster.Freed(); slices.Equal(freed, []string{"a0"}) == tc.full {
				t.Errorf("freed on %v, full: %v", freed, tc.full)
			}
			if full := b.full(pod); full != tc.full {
				t.Errorf("the host is full: %v, want %v", full, tc.full)
			}
			if held := h.has(graph); held != tc.held || h.graphs()[graph] != tc.held {
				t.Errorf("the graph holds capacity: %v, want %v", held, tc.held)
			}
		})
	}
}

// withGroup is a cache of graphs in which one scaling group is found by its name.
type withGroup struct {
	graphs
	sg *trellisv1alpha1.ScalingGroup
}

func (w withGroup) Get(ctx context.Context, name types.NamespacedName, object client.Object, _ ...client.GetOption) error {
	if out, ok := object.(*trellisv1alpha1.ScalingGroup); ok {
		w.sg.DeepCopyInto(out)
		return nil
	}
	return w.graphs.Get(ctx, name, object)
}

// The capacity of a pod that failed is held from then on, and not again when the pod is deleted: others may have it by then.
func TestCapacityOfAFailedPodIsHeld(t *testing.T) {
	b, o := newBench(t, Options{}), asking(1, 1, 0)
	b.s.objects.reader = withGroup{graphs{"g1": o}, o.Groups[0]}
	pod := boundTo(o.Pods[0], "a0")
	pod.Spec.SchedulingGates = nil
	b.s.podSet(nil, pod)
	failed := pod.DeepCopy()
	failed.Status.Phase = corev1.PodFailed
	b.s.podSet(pod, failed)
	if b.s.podSet(failed, failed); !b.full(pod) || !b.s.ledger.holds.has(clientKey(o)) {
		t.Error("the capacity is not held")
	}
	b.pass(time.Minute)
	b.s.expireHolds()
	if b.s.podGone(failed); b.full(pod) {
		t.Error("the capacity is held twice")
	}

	for _, by := range []corev1.PodCondition{
		{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonPreemptionByScheduler},
		{Type: quota.PodEvicted, Status: corev1.ConditionTrue, Reason: "WorkloadEvicted"},
	} {
		preempted := pod.DeepCopy()
		b.s.podSet(nil, pod)
		preempted.Status = corev1.PodStatus{Phase: corev1.PodFailed, Conditions: []corev1.PodCondition{by}}
		if b.s.podSet(pod, preempted); b.full(pod) {
			t.Errorf("the capacity of a pod that was preempted is held: %s", by.Type)
		}
		b.s.ledger.holds.preempted = map[string]time.Time{}
	}
}

// What is held for a replica stays held until all its pods are made again.
func TestHoldsOfAHalfMadeReplica(t *testing.T) {
	b, o := newBench(t, Options{}), asking(1, 2, 0)
	b.taken("b0", "b1")
	for i, node := range []string{"a0", "a1"} {
		pod := boundTo(o.Pods[i], node)
		b.s.ledger.cluster.SetPod(pod)
		b.s.ledger.holds.begin(b.s.ledger.cluster, pod, node, clientKey(o), begin)
		o.Pods[i].UID += "-again"
	}
	half := o
	half.Pods = o.Pods[:1]
	b.expect("the first pod is made", half, gang.BeingCreated)
	b.expect("another graph", asking(2, 1, 0), "holds 0 of 1")
	b.expect("both are made", o, "rack a")
	if b.s.ledger.holds.has(clientKey(o)) {
		t.Error("held for ever")
	}
}

// What a replica does not take of its hold is for others: they are told when the hold ends. Its own graph is planned once more, and no further.
func TestTheEndOfAHoldWakes(t *testing.T) {
	for name, tc := range map[string]struct {
		size   int32
		placed int
	}{"it fits, and takes less": {1, 2}, "it does not fit any more": {3, 1}} {
		t.Run(name, func(t *testing.T) {
			b := waitingGraphs(t, 1)
			o := asking(2, tc.size, 0)
			b.s.objects.reader.(graphs)["g2"] = o
			b.s.ledger.cluster.DeletePod("on-a0")
			was := boundTo(o.Pods[0], "a0")
			b.s.ledger.holds.begin(b.s.ledger.cluster, was, "a0", clientKey(o), begin)
			if tc.size == 1 {
				o.Pods[0].Spec.Containers = nil
			}
			b.s.queue.add(clientKey(o))
			if n := b.look(); n > 3 {
				t.Errorf("%d plans", n)
			}
			if n := b.releasing(); n != tc.placed {
				t.Errorf("%d are placed, want %d", n, tc.placed)
			}
		})
	}
}

func TestBackoffs(t *testing.T) {
	all, name, now := backoffs{}, types.NamespacedName{Namespace: "ns", Name: "g"}, begin
	for i, want := range []time.Duration{1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300} {
		all.begin(name, "why", now)
		one, backsOff := all.of(name, now)
		if !backsOff || one.until.Sub(now) != want*time.Second || one.message != "why" || all.times(name, now) != i+1 {
			t.Errorf("pause %d lasts %s, want %ds", i+1, one.until.Sub(now), want)
		}
		if now = one.until; func() bool { _, still := all.of(name, now); return still }() {
			t.Errorf("pause %d does not end", i+1)
		}
	}
	if quiet := now.Add(lastBackoff); all.times(name, quiet.Add(-1)) != 11 || all.times(name, quiet) != 0 {
		t.Errorf("after a quiet time %d are counted", all.times(name, quiet))
	}
	if all.end(name); all.times(name, now) != 0 {
		t.Error("remembered for ever")
	}
}

func TestWhatStandsAgainstAPodKeepsItsTime(t *testing.T) {
	u := newReleasedPods()
	setStuck := func(said, node string, now time.Time) {
		u.change("p", func(r *released) { r.stuck.set(said, node, now) })
	}
	setStuck("no", "", begin)
	setStuck("no", "n", begin.Add(time.Minute))
	u.change("p", func(r *released) { r.objected.set("no", "", begin.Add(time.Second)) })
	if r := u.of("p"); !r.stuck.since.Equal(begin) || r.stuck.node != "n" || !r.objected.since.Equal(begin.Add(time.Second)) {
		t.Errorf("stuck since %+v, objected to since %+v", r.stuck, r.objected)
	}
	u.restart("p", begin.Add(time.Hour))
	u.restart("other", begin)
	if r := u.of("p"); !r.stuck.since.Equal(begin.Add(time.Hour)) || u.byID["other"] != nil {
		t.Errorf("stuck are %+v", u.byID)
	}
	setStuck("", "", begin)
	if r := u.of("p"); r.stuck.stands() || r.objected.since.IsZero() {
		t.Error("one of both ended, and the other one with it, or none")
	}
	if u.forget("p"); len(u.byID)+len(u.refused) > 0 {
		t.Error("remembered for ever")
	}
}

func TestInFlight(t *testing.T) {
	b := newBench(t, Options{})
	o := asking(1, 2, 0)
	d := b.decide(o)
	first, second := topology.PodID(d.releases[0].Pod), topology.PodID(d.releases[1].Pod)
	f := &b.s.ledger.pods
	if !f.of(first).domain.Equal(topology.Path{"z", "a"}) || b.count(func(r *released) bool { return !r.at.IsZero() }) != 2 || b.preempts() != 0 {
		t.Errorf("in flight are %+v", f.byID)
	}
	f.change(first, (*released).visible)
	if f.of(first).releasing || b.releasing() != 1 {
		t.Errorf("still under way: %+v", f.byID)
	}
	if took, known := f.bound(first, begin.Add(3*time.Second)); !known || took != 3*time.Second {
		t.Errorf("bound after %s, known: %v", took, known)
	}
	if _, known := f.bound(first, begin); known {
		t.Error("bound twice")
	}
	if f.forget(second); len(f.byID) > 0 {
		t.Error("remembered for ever")
	}
}
