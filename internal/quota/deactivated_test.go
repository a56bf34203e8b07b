// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
)

// deactivate sets a Workload inactive and evicts it with one of Kueue's reasons.
func deactivate(w *Workload, reason, message string) {
	w.Spec.Active = ptr.To(false)
	w.Status.Conditions = []metav1.Condition{
		{Type: workloadReserved, Status: metav1.ConditionFalse, Reason: "Pending", Message: message},
		{Type: workloadEvicted, Status: metav1.ConditionTrue, Reason: reason, Message: message},
	}
}

const limitExceeded = "The workload is deactivated due to exceeding the maximum number of re-queuing retries"

// TestDeactivatedByKueue: a corrected template gets a new Workload where Kueue itself has deactivated the one of before, and stays inactive
// where an administrator has.
func TestDeactivatedByKueue(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		// renewed: another template gets a new Workload.
		renewed bool
		says    string
	}{
		"too many retries":   {"DeactivatedDueToRequeuingLimitExceeded", true, "Kueue has deactivated it for RequeuingLimitExceeded: " + limitExceeded},
		"a check rejects it": {"DeactivatedDueToAdmissionCheck", true, "Kueue has deactivated it for AdmissionCheck"},
		"it ran too long":    {"DeactivatedDueToMaximumExecutionTimeExceeded", true, "Kueue has deactivated it for MaximumExecutionTimeExceeded"},
		"an administrator":   {"Deactivated", false, "it is deactivated; set its spec.active to true to request quota"},
		"another eviction":   {"Preempted", false, "it is deactivated; set its spec.active to true to request quota"},
	} {
		for which, at := range map[string]int{"the base": 0, "another replica": 1} {
			t.Run(name+", "+which, func(t *testing.T) {
				w := newWorld(t, group("work", 2, 1, "8"))
				work := w.groups[0]
				w.make(work, 0, 1)
				set(w.workloadsAfterStep()[0], workloadReserved, metav1.ConditionTrue, "")
				set(w.workloads[0], workloadAdmitted, metav1.ConditionTrue, "")
				w.step()
				one := w.workloads[at]
				deactivate(one, tc.reason, limitExceeded)
				w.gone(work, int32(at))
				w.expect("Kueue has deleted its pods")
				w.make(work, int32(at))
				w.expect("they are recreated, gated")
				if o := w.observation(); !strings.Contains(o.Report().Message, tc.says) {
					t.Errorf("it says %q", o.Report().Message)
				}

				work.Spec.Revision, work.Spec.Roles[0].Template.Spec.Containers[0].Image = "2", "app:2"
				lines, _ := w.look()
				if got := slices.Contains(lines, "-"+short(one.Name)); got != tc.renewed {
					t.Fatalf("deleted after the image was corrected: %v, %q", got, lines)
				}
				if !tc.renewed {
					return
				}
				w.step()
				successor := named(w.workloads, one.Name)
				if successor == nil || successor == one || !successor.active() {
					t.Fatalf("the next one is %+v", successor)
				}
				deactivate(successor, tc.reason, limitExceeded)
				w.expect("it is deactivated, too, for the same template")
				work.Spec.Restart = &trellisv1alpha1.Restart{ID: "again"}
				if lines, _ := w.look(); !slices.Contains(lines, "-"+short(one.Name)) {
					t.Errorf("after a restart: %q", lines)
				}
			})
		}
	}
}

// TestQuotaOfDeactivatedPods: a Workload that Kueue has deactivated stays while it holds quota for pods that still end, and one that an
// earlier version created, which does not name its templates, stays, too.
func TestQuotaOfDeactivatedPods(t *testing.T) {
	for name, change := range map[string]func(*Workload){
		"it holds quota":             func(w *Workload) { w.Status.Conditions[0].Status = metav1.ConditionTrue },
		"it does not name templates": func(w *Workload) { delete(w.Annotations, annotationMadeFrom) },
		"it was activated":           func(w *Workload) { w.Spec.Active = nil },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, group("work", 1, 1, "8"))
			w.make(w.groups[0], 0)
			one := w.workloadsAfterStep()[0]
			deactivate(one, "DeactivatedDueToRequeuingLimitExceeded", limitExceeded)
			change(one)
			w.groups[0].Spec.Revision = "2"
			w.expect("another template")
		})
	}
}

// TestDeactivationTarget: Kueue names the cause before it has evicted the Workload.
func TestDeactivationTarget(t *testing.T) {
	w := newWorld(t, group("work", 1, 1, "8"))
	w.make(w.groups[0], 0)
	one := w.workloadsAfterStep()[0]
	one.Spec.Active = ptr.To(false)
	one.Status.Conditions = []metav1.Condition{{
		Type: workloadDeactivationTarget, Status: metav1.ConditionTrue, Reason: "RequeuingLimitExceeded", Message: "exceeding the maximum number",
	}}
	o := w.observation()
	if got := o.Report().Message; !strings.Contains(got, "for RequeuingLimitExceeded: exceeding the maximum number") {
		t.Error(got)
	}
}

func (w *world) workloadsAfterStep() []*Workload {
	w.t.Helper()
	w.step()
	return w.workloads
}
