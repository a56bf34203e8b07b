// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// heldPod is a pod that was bound to the host a0 and is gone; its capacity there is held from the beginning.
func heldPod(b *bench, h *holds) (*corev1.Pod, types.NamespacedName) {
	o := asking(1, 1, 0)
	pod := boundTo(o.Pods[0], "a0")
	b.s.cluster.SetPod(pod)
	h.begin(b.s.cluster, pod, "a0", clientKey(o), begin)
	return pod, clientKey(o)
}

// full says whether a0 has no capacity for one more pod.
func (b *bench) full(like *corev1.Pod) bool {
	_, full := b.s.cluster.Why("a0", topology.ShapeOf(like))
	return full
}

func TestHeldCapacity(t *testing.T) {
	next := func(pod *corev1.Pod) []placement.Service {
		return []placement.Service{{Waiting: []placement.Replica{{Pods: []placement.Pod{{Name: pod.Name}}}}}}
	}
	for name, tc := range map[string]struct {
		do   func(b *bench, h *holds, pod *corev1.Pod, graph types.NamespacedName)
		full bool
		held bool
	}{
		"is taken": {func(*bench, *holds, *corev1.Pod, types.NamespacedName) {}, true, true},
		"is free for its successor": {func(b *bench, h *holds, pod *corev1.Pod, _ types.NamespacedName) {
			h.lift(b.s.cluster, "ns", next(pod))
		}, false, true},
		"is not free for one of another namespace": {func(b *bench, h *holds, pod *corev1.Pod, _ types.NamespacedName) {
			h.lift(b.s.cluster, "other", next(pod))
		}, true, true},
		"is taken again after a plan that was dropped": {func(b *bench, h *holds, pod *corev1.Pod, _ types.NamespacedName) {
			h.lift(b.s.cluster, "ns", next(pod))
			h.restore(b.s.cluster)
		}, true, true},
		"ends when its successor was planned": {func(b *bench, h *holds, pod *corev1.Pod, _ types.NamespacedName) {
			h.lift(b.s.cluster, "ns", next(pod))
			h.end(b.s.cluster, map[string]*corev1.Pod{"id": pod})
		}, false, false},
		"ends with its graph": {func(b *bench, h *holds, _ *corev1.Pod, graph types.NamespacedName) {
			if nodes := h.drop(b.s.cluster, graph); len(nodes) != 1 || nodes[0] != "a0" {
				b.t.Errorf("freed on %v, want a0", nodes)
			}
		}, false, false},
		"does not end with another graph": {func(b *bench, h *holds, _ *corev1.Pod, _ types.NamespacedName) {
			h.drop(b.s.cluster, types.NamespacedName{Namespace: "ns", Name: "other"})
		}, true, true},
		"lasts its time": {func(b *bench, h *holds, _ *corev1.Pod, _ types.NamespacedName) {
			if _, next := h.expire(b.s.cluster, begin.Add(59*time.Second)); next != time.Second {
				b.t.Errorf("the next one ends in %s, want 1s", next)
			}
		}, true, true},
		"ends after its time": {func(b *bench, h *holds, _ *corev1.Pod, _ types.NamespacedName) {
			if nodes, _ := h.expire(b.s.cluster, begin.Add(time.Minute)); len(nodes) != 1 || nodes[0] != "a0" {
				b.t.Errorf("freed on %v, want a0", nodes)
			}
		}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			b, h := newBench(t, Options{}), newHolds(time.Minute)
			pod, graph := heldPod(b, &h)
			tc.do(b, &h, pod, graph)
			if full := b.full(pod); full != tc.full {
				t.Errorf("the host is full: %v, want %v", full, tc.full)
			}
			if held := h.has(graph); held != tc.held || h.graphs()[graph] != tc.held {
				t.Errorf("the graph holds capacity: %v, want %v", held, tc.held)
			}
		})
	}
}

func TestBackoffs(t *testing.T) {
	all, name, now := backoffs{}, types.NamespacedName{Namespace: "ns", Name: "g"}, begin
	for i, want := range []time.Duration{1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300} {
		all.begin(name, "why", now)
		one, backsOff := all.of(name, now)
		if !backsOff || one.until.Sub(now) != want*time.Second || one.message != "why" || all.times(name) != i+1 {
			t.Errorf("pause %d lasts %s, want %ds", i+1, one.until.Sub(now), want)
		}
		if now = one.until; func() bool { _, still := all.of(name, now); return still }() {
			t.Errorf("pause %d does not end", i+1)
		}
	}
	if all.end(name); all.times(name) != 0 {
		t.Error("remembered for ever")
	}
}

func TestWhatStandsAgainstAPodKeepsItsTime(t *testing.T) {
	u := newUnbound()
	u.setStuck("p", true, begin)
	u.setStuck("p", true, begin.Add(time.Minute))
	u.setObjected("p", true, begin.Add(time.Second))
	if !u.stuck["p"].Equal(begin) || !u.objected["p"].Equal(begin.Add(time.Second)) {
		t.Errorf("stuck since %s, objected to since %s", u.stuck["p"], u.objected["p"])
	}
	u.restart("p", begin.Add(time.Hour))
	u.restart("other", begin)
	if !u.stuck["p"].Equal(begin.Add(time.Hour)) || u.isStuck("other") {
		t.Errorf("stuck are %v", u.stuck)
	}
	if u.setStuck("p", false, begin); u.isStuck("p") || u.objected["p"].IsZero() {
		t.Error("one of both ended, and the other one with it, or none")
	}
	if u.forget("p"); len(u.stuck)+len(u.objected) > 0 {
		t.Error("remembered for ever")
	}
}

func TestInFlight(t *testing.T) {
	b := newBench(t, Options{})
	o := asking(1, 2, 0)
	d := b.s.decide(t.Context(), o)
	first, second := topology.PodID(d.releases[0].Pod), topology.PodID(d.releases[1].Pod)
	f := &b.s.inFlight
	if !f.domains[first].Equal(topology.Path{"z", "a"}) || len(f.since) != 2 || len(f.preempting) != 0 {
		t.Errorf("in flight are %v since %v", f.domains, f.since)
	}
	f.visible(first)
	if _, still := f.domains[first]; still || len(f.domains) != 1 {
		t.Errorf("still under way: %v", f.domains)
	}
	if took, known := f.bound(first, begin.Add(3*time.Second)); !known || took != 3*time.Second {
		t.Errorf("bound after %s, known: %v", took, known)
	}
	if _, known := f.bound(first, begin); known {
		t.Error("bound twice")
	}
	if f.forget(second); len(f.domains)+len(f.since)+len(f.preempting) > 0 {
		t.Error("remembered for ever")
	}
}
