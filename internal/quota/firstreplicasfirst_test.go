// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

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
