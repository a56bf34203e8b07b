// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Kueue has a moment to decide about the first replicas. What follows them is created after its decision, and then needs no activation.
func TestKueueDecidesFirst(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(w *world)
		// want are the Workloads that are created then, and active those of all that are active.
		want, active []string
	}{
		"it has not yet": {func(*world) {}, nil, []string{"g-base"}},
		"it gives quota": {func(w *world) { set(w.workloads[0], workloadReserved, metav1.ConditionTrue, "") },
			[]string{"+g-work-1 work-mainx1", "+g-work-2 work-mainx1"}, []string{"g-base", "g-work-1", "g-work-2"}},
		"it has none": {func(w *world) { set(w.workloads[0], workloadReserved, metav1.ConditionFalse, "none") },
			[]string{"+g-work-1 work-mainx1", "+g-work-2 work-mainx1"}, []string{"g-base"}},
		"it says nothing": {func(w *world) { w.now = noon.Add(firstWord) },
			[]string{"+g-work-1 work-mainx1", "+g-work-2 work-mainx1"}, []string{"g-base"}},
		"its creation is in the future": {func(w *world) { w.now = noon.Add(-time.Hour) },
			[]string{"+g-work-1 work-mainx1", "+g-work-2 work-mainx1"}, []string{"g-base"}},
		"another client deactivates it": {func(w *world) { w.workloads[0].Spec.Active = new(bool) },
			[]string{"+g-work-1 work-mainx1", "+g-work-2 work-mainx1"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, group("work", 3, 1, "8"))
			w.make(w.groups[0], 0, 1, 2)
			first, next := w.look()
			if diff := cmp.Diff([]string{"+g-base work-mainx1"}, first); diff != "" || !next.Equal(noon.Add(firstWord)) {
				t.Fatalf("the next look is at %v; first (-want +got):\n%s", next, diff)
			}
			tc.change(w)
			then, _ := w.look()
			if diff := cmp.Diff(tc.want, then); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(tc.active, w.active()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Pods are created side by side, and become visible in any order.
func TestFollowersAreVisibleFirst(t *testing.T) {
	w := newWorld(t, group("work", 2, 1, "8"))
	w.make(w.groups[0], 0, 1)
	all := w.pods
	w.pods = all[1:]
	lines, next := w.look()
	if len(lines) > 0 || !next.Equal(noon.Add(firstWord)) {
		t.Errorf("%q, and the next look is at %v", lines, next)
	}
	w.pods = all
	if lines, _ = w.look(); len(lines) != 1 {
		t.Errorf("with all pods: %q", lines)
	}
	w.pods, w.workloads, w.now = all[1:], nil, next
	if lines, _ = w.look(); len(lines) != 1 || len(w.active()) > 0 {
		t.Errorf("no pod of the first replicas is created: %q, active %q", lines, w.active())
	}
}

// Followers wait for the last decision that is due, in whatever order the awaited Workloads are looked at.
func TestTheLastDecisionCounts(t *testing.T) {
	a, b := group("a", 0, 1, "8"), group("b", 0, 1, "8")
	w := newWorld(t, group("front", 1, 1, "1"), a, b)
	w.make(w.groups[0], 0)
	w.step()
	set(w.workloads[0], workloadReserved, metav1.ConditionTrue, "")
	a.Spec.Replicas = 1
	w.make(a, 0)
	w.look()
	w.now = w.now.Add(time.Second)
	b.Spec.Replicas = 2
	w.make(b, 0, 1)
	w.pods = slices.Delete(w.pods, 2, 3) // that of b-0 is not visible yet
	for range 20 {
		if s := Plan(w.observation()); len(s.Create) > 0 || !s.Next.Equal(w.now.Add(firstWord)) {
			t.Fatalf("created %d, and the next look is at %v", len(s.Create), s.Next)
		}
	}
}

// Whether Kueue has yet to answer is told apart from its refusal.
func TestUndecided(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(w *world)
		want   bool
	}{
		"Kueue has not answered": {func(*world) {}, true},
		"it has no quota":        {func(w *world) { set(w.workloads[0], workloadReserved, metav1.ConditionFalse, "none") }, false},
		"it waits for checks":    {func(w *world) { set(w.workloads[0], workloadReserved, metav1.ConditionTrue, "") }, false},
		"it is deactivated":      {func(w *world) { w.workloads[0].Spec.Active = new(bool) }, false},
		"the others are created": {func(w *world) { set(w.workloads[0], workloadAdmitted, metav1.ConditionTrue, "") }, true},
		"there is none yet":      {func(w *world) { w.workloads = nil }, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, group("work", 2, 1, "8"))
			w.make(w.groups[0], 0, 1)
			w.look()
			tc.change(w)
			o := w.observation()
			if got := o.Report(); got.Undecided != tc.want || got.Reserved {
				t.Errorf("reported %+v, want undecided: %v", got, tc.want)
			}
		})
	}
}

// A base that is recreated has no quota for replicas that have a Workload of their own: nothing would use it.
func TestBaseWithoutReplicasThatAreAlone(t *testing.T) {
	front, work := group("front", 1, 1, "1"), group("work", 0, 1, "8")
	w := newWorld(t, front, work)
	w.make(front, 0)
	w.expect("at first", "+g-base front-mainx1")
	work.Spec.Replicas = 2
	w.make(work, 0, 1)
	set(w.workloads[0], workloadReserved, metav1.ConditionTrue, "")
	w.expect("scaled out", "+g-work-0 work-mainx1", "+g-work-1 work-mainx1")
	w.gone(front, 0)
	w.workloads = w.workloads[1:]
	w.make(front, 0)
	w.expect("the first replicas were lost", "+g-base front-mainx1")
	w.gone(work, 1)
	w.gone(front, 0)
	w.workloads = w.workloads[:1]
	w.make(front, 0)
	w.make(work, 1)
	w.expect("with another replica", "+g-base front-mainx1 work-mainx1")
}

// A base that got no quota is recreated without the share of replicas that ask for less, alone, since then. So is one that was to ask
// later, for more.
func TestRequestsAreLowered(t *testing.T) {
	for name, paused := range map[string]bool{"in the queue": false, "in a pause": true} {
		t.Run(name, func(t *testing.T) {
			front, work := group("front", 1, 1, "1"), group("work", 1, 1, "64")
			w := newWorld(t, front, work)
			w.make(front, 0)
			w.make(work, 0)
			w.expect("at first", "+g-base front-mainx1 work-mainx1")
			base := w.workloads[0]
			set(base, workloadReserved, metav1.ConditionFalse, "64 of 8")
			work.Spec.Roles[0].Template.Spec.Containers[0].Resources.Requests["gpu"] = resource.MustParse("8")
			w.gone(work, 0)
			w.expect("its pod is being recreated")
			w.make(work, 0)
			base.Spec.Active = new(bool)
			if lines, _ := w.look(); slices.Contains(lines, "-g-base") {
				t.Errorf("another client has deactivated it: %q", lines)
			}
			if base.Spec.Active = nil; paused {
				base.Spec.Active = new(bool)
				base.Annotations = map[string]string{annotationNoPlace: "work-0: full", annotationAskAfter: w.now.Add(time.Hour).Format(time.RFC3339)}
			}
			if lines, _ := w.look(); !slices.Contains(lines, "-g-base") {
				t.Fatalf("it asks for less: %q", lines)
			}
			w.expect("the base is gone", "+g-base front-mainx1")
			set(w.workloads[1], workloadReserved, metav1.ConditionTrue, "")
			w.step()
			if got := w.active(); len(got) != 2 {
				t.Errorf("active: %q", got)
			}
		})
	}
}
