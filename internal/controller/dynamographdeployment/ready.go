// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package dynamographdeployment

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/placement"
)

// readyCondition summarizes why components are not ready. The reason tells programs whether waiting helps. A shortage of capacity, pods
// that do not start, and a running update each have their own reason, which is reported only if it is the only reason.
func readyCondition(o observed, components []component, p *problem, failure error, placed *metav1.Condition) *condition {
	const kind = nvidiav1beta1.ConditionReady
	switch {
	case p != nil:
		return no(kind, nvidiav1beta1.ReasonFailedToReconcile, p.message)
	case waitsForLeftovers(failure):
		return no(kind, nvidiav1beta1.ReasonSomeResourcesNotReady, "Resources not ready: "+failure.Error())
	case failure != nil:
		return no(kind, nvidiav1beta1.ReasonFailedToReconcile, failure.Error())
	}
	var missing, reasons []string
	for _, s := range components {
		if why := s.notReady(); why != "" {
			if object := waitsForObject(o, s); object != "" {
				why += ", " + object
			}
			missing, reasons = append(missing, why), append(reasons, notReadyReason(o, s, placed))
		}
	}
	if o.overLimit != "" {
		missing, reasons = append(missing, o.overLimit), append(reasons, nvidiav1beta1.ReasonPodLimitExceeded)
	}
	slices.Sort(reasons)
	reasons = slices.Compact(reasons)
	switch text := "Resources not ready: " + strings.Join(missing, "; "); {
	case len(missing) == 0:
		return yes(kind, nvidiav1beta1.ReasonAllResourcesReady, "All resources are ready")
	case slices.Equal(reasons, []string{nvidiav1beta1.ReasonRollingUpdate}):
		return no(kind, nvidiav1beta1.ReasonRollingUpdate, "Rolling update in progress: "+strings.Join(missing, "; "))
	default:
		reason := reasons[0]
		if len(reasons) > 1 {
			reason = nvidiav1beta1.ReasonMixedNotReady
		}
		return no(kind, reason, whileMissing(o, text))
	}
}

// notReadyReason returns the reason why one component is not ready.
func notReadyReason(o observed, s component, placed *metav1.Condition) string {
	unplaced := slices.ContainsFunc(o.result.Waiting, func(w gang.Waiting) bool { return w.Component == s.name })
	if !o.judged && s.group != nil { // the condition Placed is from before the operator's start
		unplaced = s.group.Status.ScheduledReplicas < s.desired
	}
	switch {
	case behind(s), s.refused() != "":
		return nvidiav1beta1.ReasonSomeResourcesNotReady
	case unplaced && (waitsForObject(o, s) != "" || !o.judged && notReadyBefore(o)):
		return nvidiav1beta1.ReasonSomeResourcesNotReady
	case unplaced && placed != nil && placed.Status == metav1.ConditionFalse && noCapacity(placed.Reason):
		return nvidiav1beta1.ReasonInsufficientCapacity
	case s.rolling():
		return nvidiav1beta1.ReasonRollingUpdate
	case s.unhealthy() != "", s.group.Status.ScheduledReplicas >= s.desired && s.group.Status.ReadyReplicas < s.desired:
		return nvidiav1beta1.ReasonPodsNotReady
	}
	return nvidiav1beta1.ReasonSomeResourcesNotReady
}

// waitsForObject names the missing object, such as a claim, for which all waiting replicas of a component wait. More capacity would not
// help these replicas. It returns "" if one of these replicas waits for something else.
func waitsForObject(o observed, s component) (why string) {
	for i := range o.result.Waiting {
		if w := &o.result.Waiting[i]; w.Component == s.name {
			if why = w.Blocked(); why == "" {
				return ""
			}
		}
	}
	return why
}

// notReadyBefore reports whether the last condition Ready has the reason SomeResourcesNotReady.
func notReadyBefore(o observed) bool {
	last := meta.FindStatusCondition(o.dgd.Status.Conditions, nvidiav1beta1.ConditionReady)
	return last != nil && last.Reason == nvidiav1beta1.ReasonSomeResourcesNotReady
}

// noCapacity reports whether the condition Placed has a reason that means a shortage of capacity: the free capacity is too small, or the
// nodes would be too small even if they were empty.
func noCapacity(reason string) bool {
	return reason == placement.CodeInsufficientCapacity || reason == placement.CodeNeverFits
}
