// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// active are the Workloads that may have quota.
func (w *world) active() []string {
	var out []string
	for _, one := range w.workloads {
		if one.active() {
			out = append(out, short(one.Name))
		}
	}
	return out
}

// applied does what a merge patch does to a Workload.
func (w *world) applied(one *Workload, change map[string]any) {
	w.t.Helper()
	patch, err := PatchOf(one, change)
	if err != nil {
		w.t.Fatal(err)
	}
	before := maps.Clone(one.Annotations)
	if err := json.Unmarshal(patch, one); err != nil {
		w.t.Fatal(err)
	}
	if one.Annotations[annotationFollows] == "" {
		one.Annotations = before
		delete(one.Annotations, annotationFollows)
	}
}

// Quota goes to the first replicas first, also when others were faster.
func TestFirstReplicasFirst(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(w *world)
		want   []string
	}{
		"nothing has quota":   {func(*world) {}, []string{"g-base"}},
		"another was faster":  {func(w *world) { set(w.workloads[1], workloadReserved, metav1.ConditionTrue, "") }, []string{"g-base"}},
		"the first ones have": {func(w *world) { set(w.workloads[0], workloadReserved, metav1.ConditionTrue, "") }, []string{"g-base", "g-work-1", "g-work-2"}},
		"a pod of another runs": {func(w *world) {
			w.pods[len(w.pods)-1].Spec.SchedulingGates = nil
		}, []string{"g-base", "g-work-1", "g-work-2"}},
		"the pods of the first replicas are being recreated": {func(w *world) {
			w.gone(w.groups[0], 0)
		}, []string{"g-base"}},
		"the first replicas were scaled in": {func(w *world) {
			w.gone(w.groups[0], 0)
			w.groups[0].Spec.Replicas = 2
		}, []string{"g-work-1"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, group("work", 3, 1, "8"))
			w.make(w.groups[0], 0, 1, 2)
			w.step()
			if diff := cmp.Diff([]string{"g-base"}, w.active()); diff != "" {
				t.Fatalf("at first (-want +got):\n%s", diff)
			}
			tc.change(w)
			w.step()
			if diff := cmp.Diff(tc.want, w.active()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

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

// A deployment that lost all its quota gets it back in order: what follows gives up what it has.
func TestFirstReplicasFirstOnceMore(t *testing.T) {
	w := newWorld(t, group("work", 2, 1, "8"))
	w.make(w.groups[0], 0, 1)
	w.step()
	set(w.workloads[0], workloadReserved, metav1.ConditionTrue, "")
	w.step()
	set(w.workloads[1], workloadAdmitted, metav1.ConditionTrue, "")
	w.workloads[0].Status.Conditions = nil
	w.step()
	if diff := cmp.Diff([]string{"g-base"}, w.active()); diff != "" {
		t.Error(diff)
	}
	if o := w.observation(); o.Report().Reserved {
		t.Errorf("reported %+v", o.Report())
	}
}

// What another client has deactivated stays so.
func TestDeactivatedByAnother(t *testing.T) {
	w := newWorld(t, group("work", 2, 1, "8"))
	w.make(w.groups[0], 0, 1)
	w.step()
	set(w.workloads[0], workloadReserved, metav1.ConditionTrue, "")
	w.step()
	w.workloads[1].Spec.Active = new(bool)
	w.step()
	if diff := cmp.Diff([]string{"g-base"}, w.active()); diff != "" {
		t.Error(diff)
	}
}

// A Workload that another client has activated while Trellis had it ask for no quota is not Trellis' to activate any more: it stays
// inactive when the client deactivates it again.
func TestActivatedByAnother(t *testing.T) {
	for name, mark := range map[string]map[string]any{"in a pause": Pause{Why: "full", Until: noon}.Patch(), "following the first replicas": HoldPatch} {
		t.Run(name, func(t *testing.T) {
			w := checked(t)
			one := w.workloads[0]
			at := func(now time.Time) Steps {
				o := w.observation()
				o.Now = now
				return Plan(o)
			}
			one.Annotations = map[string]string{}
			for key, value := range mark["metadata"].(map[string]any)["annotations"].(map[string]any) {
				one.Annotations[key] = value.(string)
			}
			s := at(noon.Add(-time.Minute))
			if len(s.Unmark) != 1 || len(s.Ask)+len(s.Resume)+len(s.Hold) > 0 {
				t.Fatalf("activated: %+v", s)
			}
			patch, err := PatchOf(one, UnmarkPatch)
			if err != nil || strings.Contains(string(patch), "spec") {
				t.Errorf("%s, %v", patch, err)
			}
			one.Annotations, one.Spec.Active = nil, ptr.To(false)
			if s := at(noon.Add(time.Minute)); len(s.Unmark)+len(s.Ask)+len(s.Resume)+len(s.Hold) > 0 {
				t.Errorf("deactivated: %+v", s)
			}
		})
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

// A base that is created anew has no quota for replicas that have a Workload of their own: nothing would use it.
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

// A Workload that was inactive waits for quota again; Kueue keeps the condition that it was evicted.
func TestActiveAgain(t *testing.T) {
	w := newWorld(t, group("work", 1, 1, "8"))
	w.make(w.groups[0], 0)
	w.step()
	set(w.workloads[0], workloadReserved, metav1.ConditionFalse, "8 more needed")
	set(w.workloads[0], workloadEvicted, metav1.ConditionTrue, "The workload is deactivated")
	o := w.observation()
	for _, reason := range []string{"Deactivated", "DeactivatedDueToRequeuingLimitExceeded"} {
		w.workloads[0].Status.Conditions[1].Reason = reason
		if got := o.Report().Message; !strings.HasSuffix(got, ": 8 more needed") {
			t.Error(got)
		}
	}
	w.workloads[0].Status.Conditions[1].Reason = "Preempted"
	if got := o.Report().Message; !strings.HasSuffix(got, ": The workload is deactivated") {
		t.Error(got)
	}
}

// First replicas that ask alone, since their component was scaled from 0, have quota before the replicas after them.
func TestFirstReplicasThatAreAlone(t *testing.T) {
	front, work := group("front", 1, 1, "1"), group("work", 0, 1, "8")
	w := newWorld(t, front, work)
	w.make(front, 0)
	w.step()
	work.Spec.Replicas = 2
	w.make(work, 0, 1)
	set(w.workloads[0], workloadReserved, metav1.ConditionTrue, "")
	w.step()
	if diff := cmp.Diff([]string{"g-base", "g-work-0"}, w.active()); diff != "" {
		t.Errorf("at first (-want +got):\n%s", diff)
	}
	second := w.workloads[2]
	second.Spec.Active = nil
	set(second, workloadReserved, metav1.ConditionTrue, "")
	delete(second.Annotations, annotationFollows)
	w.step()
	if diff := cmp.Diff([]string{"g-base", "g-work-0"}, w.active()); diff != "" {
		t.Errorf("another was faster (-want +got):\n%s", diff)
	}
	set(w.workloads[1], workloadReserved, metav1.ConditionTrue, "")
	w.step()
	if diff := cmp.Diff([]string{"g-base", "g-work-0", "g-work-1"}, w.active()); diff != "" {
		t.Errorf("the first ones have quota (-want +got):\n%s", diff)
	}
	w.gone(work, 0)
	w.workloads[1].Status.Conditions = nil
	w.step()
	if diff := cmp.Diff([]string{"g-base", "g-work-0"}, w.active()); diff != "" {
		t.Errorf("it lost its quota, and its pods are being recreated (-want +got):\n%s", diff)
	}
	w.make(work, 0)
	w.step()
	if diff := cmp.Diff([]string{"g-base", "g-work-0"}, w.active()); diff != "" {
		t.Errorf("its pods are recreated (-want +got):\n%s", diff)
	}
	w.pods[0].Spec.SchedulingGates = nil
	w.step()
	if diff := cmp.Diff([]string{"g-base", "g-work-0", "g-work-1"}, w.active()); diff != "" {
		t.Errorf("each waits alone (-want +got):\n%s", diff)
	}
}

// While pods terminate, Workloads keep the quota that their successors will use.
func TestQuotaIsKeptWhilePodsTerminate(t *testing.T) {
	for name, terminating := range map[string]int{"all pods": 3, "those of the first replica": 1} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, group("work", 3, 1, "8"))
			w.make(w.groups[0], 0, 1, 2)
			w.step()
			set(w.workloads[0], workloadReserved, metav1.ConditionTrue, "")
			w.step()
			for _, one := range w.workloads {
				set(one, workloadAdmitted, metav1.ConditionTrue, "")
			}
			for _, pod := range w.pods[:terminating] {
				pod.DeletionTimestamp = ptr.To(metav1.Now())
			}
			w.expect("they terminate")
			if got := w.active(); len(got) != 3 {
				t.Errorf("active: %q", got)
			}
			o := w.observation()
			if got := o.Report(); !got.Reserved {
				t.Errorf("reported %+v", got)
			}
		})
	}
}

// A base that got no quota is created anew without the share of replicas that ask for less, alone, since then.
func TestRequestsAreLowered(t *testing.T) {
	front, work := group("front", 1, 1, "1"), group("work", 1, 1, "64")
	w := newWorld(t, front, work)
	w.make(front, 0)
	w.make(work, 0)
	w.expect("at first", "+g-base front-mainx1 work-mainx1")
	set(w.workloads[0], workloadReserved, metav1.ConditionFalse, "64 of 8")
	work.Spec.Roles[0].Template.Spec.Containers[0].Resources.Requests["gpu"] = resource.MustParse("8")
	w.gone(work, 0)
	w.expect("its pod is being recreated")
	w.make(work, 0)
	if lines, _ := w.look(); !slices.Contains(lines, "-g-base") {
		t.Fatalf("it asks for less: %q", lines)
	}
	w.expect("the base is gone", "+g-base front-mainx1")
	set(w.workloads[1], workloadReserved, metav1.ConditionTrue, "")
	w.step()
	if got := w.active(); len(got) != 2 {
		t.Errorf("active: %q", got)
	}
}

// Kueue may preempt the base for a first replica of a higher priority: that one keeps its quota.
func TestTheBaseIsPreemptedForAFirstReplica(t *testing.T) {
	front, work := group("front", 1, 1, "8"), group("work", 0, 1, "8")
	w := newWorld(t, front, work)
	w.make(front, 0)
	w.step()
	set(w.workloads[0], workloadReserved, metav1.ConditionTrue, "")
	work.Spec.Replicas = 2
	w.make(work, 0, 1)
	w.step()
	set(w.workloads[1], workloadReserved, metav1.ConditionTrue, "")
	w.workloads[0].Status.Conditions = nil
	set(w.workloads[0], workloadReserved, metav1.ConditionFalse, "preempted")
	w.step()
	if diff := cmp.Diff([]string{"g-base", "g-work-0"}, w.active()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
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
