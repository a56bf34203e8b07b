// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/trellis-k8s/trellis/internal/provider"
	"github.com/trellis-k8s/trellis/internal/render"
)

// wallClock are the times in the loop's memory that come from objects. They order graphs and measure waits; no delay ends by them.
var wallClock = []string{"ledger.reserver.line[].created", "ledger.reserver.current.created"}

// Delays, reservations and holds of the loop are measured by the monotonic clock, so a clock that is set forward or back neither ends nor extends any:
// each time in its memory has a monotonic reading. One that was rounded, stored or taken from an object has none.
func TestDelaysAreMeasuredByTheMonotonicClock(t *testing.T) {
	b := newBench(t, Options{RequeueAfter: 30 * time.Second, ReserveDomainAfter: time.Minute, ReserveDomainFor: time.Hour, ReserveShare: 1})
	b.clock.SetTime(time.Now())
	b.taken("a0", "b0")
	waits, small := asking(1, 2, 0), asking(2, 1, 0)
	b.expect("two hosts in one rack", waits, "holds 1 of 2")
	b.expect("one host", small, "rack")
	b.pass(2 * time.Minute)
	b.expect("two hosts in one rack, for which one is reserved", waits, "holds 1 of 2")

	name, now := clientKey(waits), b.s.options.Clock.Now()
	b.s.queue.wakeUp(b.s.ledger.releaseFailed(name, errors.New("refused")))
	b.s.ledger.backoffs.begin(name, "unbound", now)
	b.s.queue.addAt(name, now.Add(retryAfter))
	pod := small.Pods[0].DeepCopy()
	pod.Spec.SchedulingGates, pod.Annotations = nil, map[string]string{render.AnnotationGang: "g2-gang"}
	b.s.ledger.pods.setParted(string(pod.UID), "elsewhere", now)
	b.s.ledger.pods.change(string(pod.UID), func(r *released) {
		r.objected.set("no", "", now)
		r.anywhere = now
	})
	b.track(pod)
	pod = pod.DeepCopy()
	pod.UID += "-stuck"
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: "no"}}
	b.track(pod)
	held := boundTo(pod, "a1")
	b.s.ledger.holds.begin(b.s.ledger.cluster, held, "a1", clientKey(small), now)
	b.s.ledger.holds.preempted["ns/g2-work-0"] = now
	b.s.ledger.reserver.rest("ns", now)

	found := map[string]bool{}
	timesIn(reflect.ValueOf(b.s).Elem(), "", map[uintptr]bool{}, func(path string, monotonic bool) {
		found[path] = true
		for _, known := range wallClock {
			monotonic = monotonic || path == known
		}
		if !monotonic {
			t.Errorf("%s has no monotonic reading: set the clock, and what it ends lasts longer or ends early", path)
		}
	})
	for _, path := range []string{
		"queue.later[]", "ledger.backoffs[].until", "ledger.failures[].until", "ledger.holds.byPod[].until", "ledger.holds.preempted[]",
		"ledger.pods.byID[].at", "ledger.pods.byID[].stuck.since", "ledger.pods.byID[].objected.since", "ledger.pods.byID[].parted.since",
		"ledger.pods.byID[].idle.since", "ledger.pods.byID[].anywhere",
		"ledger.reserver.line[].since", "ledger.reserver.rests[]", "ledger.reserver.current.until",
	} {
		if !found[path] {
			t.Errorf("the test leaves no time in %s; it found %v", path, found)
		}
	}
}

// timesIn visits the times that are not zero in a value of this module's types.
func timesIn(v reflect.Value, path string, seen map[uintptr]bool, visit func(path string, monotonic bool)) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() || v.Kind() == reflect.Pointer && seen[v.Pointer()] {
			return
		}
		if v.Kind() == reflect.Pointer {
			seen[v.Pointer()] = true
		}
		timesIn(v.Elem(), path, seen, visit)
	case reflect.Map:
		for entries := v.MapRange(); entries.Next(); {
			timesIn(entries.Value(), path+"[]", seen, visit)
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			timesIn(v.Index(i), path+"[]", seen, visit)
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			if wall := v.FieldByName("wall").Uint(); wall != 0 || v.FieldByName("ext").Int() != 0 {
				visit(path, wall>>63 == 1)
			}
			return
		}
		if !strings.HasPrefix(v.Type().PkgPath(), "github.com/trellis-k8s/trellis/internal/scheduler") {
			return
		}
		if v.CanAddr() { // others may point to it
			seen[v.UnsafeAddr()] = true
		}
		for i := range v.NumField() {
			of := path
			if field := v.Type().Field(i); !field.Anonymous {
				of = strings.TrimPrefix(fmt.Sprintf("%s.%s", path, field.Name), ".")
			}
			timesIn(v.Field(i), of, seen, visit)
		}
	}
}

// A gang waits, and the operator's clock is set back by an hour: it waited for no time, not for a negative one.
func TestNoNegativeWaitAfterAClockWasSetBack(t *testing.T) {
	m := measure(t, Options{RequeueAfter: 30 * time.Second})
	m.taken("a0", "b0")
	o := m.wants(1, 2)
	m.pass(10 * time.Second)
	before := m.readings()
	m.clock.SetTime(m.clock.Now().Add(-time.Hour))
	m.freed("a0")
	m.looks(o)
	after := m.readings()
	if waited := after["trellis_time_to_placement_seconds gold"] - before["trellis_time_to_placement_seconds gold"]; waited < 0 {
		t.Errorf("it waited for %.0f s", waited)
	}
	if n := after["trellis_time_to_placement_seconds gold n"] - before["trellis_time_to_placement_seconds gold n"]; n != 1 {
		t.Errorf("%.0f placements were measured, want 1", n)
	}
}

// The process was stopped for a day, or the machine slept: everything is over at once, and each thing happens once.
func TestDelaysAfterADay(t *testing.T) {
	b, placer := newBench(t, Options{RequeueAfter: 30 * time.Second}), &objecting{}
	o := asking(1, 1, 0)
	name, pod := clientKey(o), o.Pods[0]
	pod.Spec.SchedulingGates, pod.Annotations = nil, map[string]string{render.AnnotationGang: "g1-gang"}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: "no"}}
	b.s.providers = provider.New(provider.Options{}, provider.All{Placers: []provider.Placer{placer}})
	b.track(pod)
	if b.s.requeueStuck(t.Context(), o) {
		t.Fatal("requeued at once")
	}
	b.s.ledger.holds.begin(b.s.ledger.cluster, boundTo(pod, "a0"), "a0", types.NamespacedName{Namespace: "ns", Name: "other"}, b.clock.Now())
	b.pass(24 * time.Hour)
	if due, _ := b.s.queue.take(b.clock.Now()); len(due) != 1 || due[0] != name {
		t.Errorf("due: %v", due)
	}
	if len(b.s.ledger.holds.byPod) > 0 {
		t.Error("capacity is still held")
	}
	requeued := b.s.requeueStuck(t.Context(), o)
	again := b.s.requeueStuck(t.Context(), o)
	if times := b.s.ledger.backoffs.times(name, b.clock.Now()); !requeued || times != 1 {
		t.Errorf("requeued: %v, again: %v, %d pauses begun, want 1", requeued, again, times)
	}
	if pause, lasts := b.s.ledger.backoffs.of(name, b.clock.Now()); !lasts || pause.until.Sub(b.clock.Now()) != firstBackoff {
		t.Errorf("the pause is %+v", pause)
	}
}
