// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/limit"
)

// annotationMadeFrom on a Workload identifies the pod templates for which the Workload was created, including images and commands. Pods of
// a changed template that needs the same quota join the existing Workload, so the annotation may identify an earlier template.
const annotationMadeFrom = "trellis.dev/made-from"

// deactivationByKueue returns the reason and message with which Kueue itself has deactivated a Workload, for example RequeuingLimitExceeded
// by waitForPodsReady. It returns "" for a Workload that is active, that Trellis keeps inactive, or that another client has deactivated.
func (w *Workload) deactivationByKueue() (cause, message string) {
	if !w.deactivated() {
		return "", ""
	}
	if c := meta.FindStatusCondition(w.Status.Conditions, workloadEvicted); c != nil {
		if cause, is := strings.CutPrefix(c.Reason, reasonDeactivatedBy); is && w.isEvicted() {
			return cause, c.Message
		}
	}
	// Kueue sets this condition before it deactivates a Workload. Afterwards it replaces the condition with Evicted.
	if c := meta.FindStatusCondition(w.Status.Conditions, workloadDeactivationTarget); c != nil && c.Status == metav1.ConditionTrue {
		return c.Reason, c.Message
	}
	return "", ""
}

// whyInactive returns the reason why a Workload is inactive although Trellis does not keep it inactive.
func (w *Workload) whyInactive() string {
	cause, message := w.deactivationByKueue()
	if cause == "" {
		return "it is deactivated; set its spec.active to true to request quota"
	}
	return fmt.Sprintf("Kueue has deactivated it for %s: %s; quota is requested again, with a new Workload, when the template of its pods "+
		"changes or its spec.active is set to true", cause, limit.Text(message, maxKueueMessage/2))
}

// abandoned reports whether Kueue has deactivated a Workload and released its quota, and the pod templates have changed since the Workload
// was created. The pods then get a new Workload, because the old Workload would stay inactive.
func (o *Observation) abandoned(w *Workload, a asks) bool {
	before := w.Annotations[annotationMadeFrom]
	if cause, _ := w.deactivationByKueue(); cause == "" || before == "" || w.holdsQuota() {
		return false
	}
	groups := o.groupsIn(w.Name, a)
	return len(groups) > 0 && before != madeFrom(groups)
}

// madeFrom returns a hash of the pod template revisions and restart IDs of scaling groups.
func madeFrom(groups []*trellisv1alpha1.ScalingGroup) string {
	parts := make([]string, 0, len(groups))
	for _, sg := range groups {
		part := sg.Spec.Component + "=" + sg.Spec.Revision
		if sg.Spec.Restart != nil {
			part += "/" + sg.Spec.Restart.ID
		}
		parts = append(parts, part)
	}
	slices.Sort(parts)
	return shortHash(strings.Join(parts, " "))
}

// groupsIn returns the scaling groups of a Workload's pods: all groups for the base, otherwise the group of the Workload's replica. The
// replica's pods need not exist.
func (o *Observation) groupsIn(name string, a asks) []*trellisv1alpha1.ScalingGroup {
	if name == a.base.Name {
		return o.Groups
	}
	for _, sg := range o.Groups {
		pods := membersOf(sg, o.Pods)
		if slices.ContainsFunc(pods, func(pod *corev1.Pod) bool { return WorkloadOf(pod) == name }) ||
			slices.ContainsFunc(gang.Ordinals(sg, pods, o.Record.Replicas(sg.Spec.Component)), func(n int) bool {
				return ownName(sg, int32(n), a.roles[sg]) == name
			}) {
			return []*trellisv1alpha1.ScalingGroup{sg}
		}
	}
	return nil
}
