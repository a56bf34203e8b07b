// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
)

// Admitted reports whether Kueue allows the pods of a Workload to run.
func (w *Workload) Admitted() bool {
	return meta.IsStatusConditionTrue(w.Status.Conditions, workloadAdmitted) && !w.isEvicted()
}

// Finished reports whether Kueue permanently ignores a Workload, for example because its pods did not match its podsets.
func (w *Workload) Finished() bool {
	return meta.IsStatusConditionTrue(w.Status.Conditions, workloadFinished)
}

// usable reports whether pods can join a Workload.
func (w *Workload) usable() bool { return w.DeletionTimestamp == nil && !w.Finished() }

// BaseEnds reports whether the Workload of a deployment's first replicas is being deleted or is finished. Until it is gone, no pod can join
// it, and no new Workload can have its name.
func BaseEnds(workloads []*Workload, groups []*trellisv1alpha1.ScalingGroup) bool {
	base := BaseAmong(workloads, groups)
	return base != nil && !base.usable()
}

// BaseAmong returns the Workload of a deployment's first replicas; nil if it does not exist.
func BaseAmong(workloads []*Workload, groups []*trellisv1alpha1.ScalingGroup) *Workload {
	return named(workloads, baseName(groups))
}

// named returns the Workload with this name; nil for none.
func named(workloads []*Workload, name string) *Workload {
	if at := slices.IndexFunc(workloads, func(w *Workload) bool { return w.Name == name }); at >= 0 {
		return workloads[at]
	}
	return nil
}

// holdsQuota reports whether quota is reserved for a Workload.
func (w *Workload) holdsQuota() bool {
	return meta.IsStatusConditionTrue(w.Status.Conditions, workloadReserved)
}

// undecided reports whether Kueue has not decided yet whether a Workload gets quota.
func (w *Workload) undecided() bool {
	return w.active() && w.usable() && meta.FindStatusCondition(w.Status.Conditions, workloadReserved) == nil && !w.isEvicted()
}

// denied reports whether Kueue has no quota for a Workload. It returns false for a Workload that requests no quota now, and for an evicted
// Workload until Kueue evaluates it again. Until then, QuotaReserved only repeats the eviction's message.
func (w *Workload) denied() bool {
	reserved := meta.FindStatusCondition(w.Status.Conditions, workloadReserved)
	if !w.active() || reserved == nil || reserved.Status != metav1.ConditionFalse {
		return false
	}
	return !w.isEvicted() || meta.FindStatusCondition(w.Status.Conditions, workloadEvicted).Message != reserved.Message
}

// isEvicted reports whether Kueue has evicted a Workload and not admitted it again.
func (w *Workload) isEvicted() bool {
	return meta.IsStatusConditionTrue(w.Status.Conditions, workloadEvicted)
}

// placesPods reports whether Kueue has chosen nodes for a Workload's pods, because a flavor names a topology.
func (w *Workload) placesPods() bool {
	if w.Status.Admission == nil {
		return false
	}
	for i := range w.Status.Admission.PodSetAssignments {
		if len(w.Status.Admission.PodSetAssignments[i].TopologyAssignment) > 0 {
			return true
		}
	}
	return false
}

// why returns the reason why a Workload is not admitted. A Workload that waits for the first replicas, is paused or is inactive has a
// reason of Trellis. Otherwise, the reason is the message of the first condition of Kueue that applies, in the order Finished, Evicted,
// QuotaReserved, Admitted.
func (w *Workload) why() string {
	if w.Follows() {
		return "it waits until the first replicas have quota"
	}
	if pause, is := w.paused(); is {
		return pause.String()
	}
	if !w.active() {
		return w.whyInactive()
	}
	for _, kind := range []string{workloadFinished, workloadEvicted, workloadReserved, workloadAdmitted} {
		c := meta.FindStatusCondition(w.Status.Conditions, kind)
		if c == nil || c.Message == "" || kind == workloadEvicted && strings.HasPrefix(c.Reason, reasonDeactivated) {
			continue // it is active again, and Kueue keeps the former condition until it has quota
		}
		if (kind == workloadReserved || kind == workloadAdmitted) == (c.Status == metav1.ConditionFalse) {
			return c.Message
		}
	}
	return "Kueue has not processed it yet"
}

func (w *Workload) active() bool { return ptr.Deref(w.Spec.Active, true) }

// deactivated reports whether another client, or Kueue, has deactivated a Workload.
func (w *Workload) deactivated() bool {
	_, paused := w.paused()
	return !w.active() && !w.Follows() && !paused
}
