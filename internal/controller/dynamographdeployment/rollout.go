// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package dynamographdeployment

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/limit"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/rollout"
)

// followRollout sets the status of updates and restarts.
func followRollout(status *nvidiav1beta1.DynamoGraphDeploymentStatus, o observed, wanted *render.Graph) {
	status.Restart = restartStatus(o)
	status.RollingUpdate = rollingUpdateOf(o, wanted, metav1.NewTime(o.now))
	if wanted == nil && rolledBackBefore(o.dgd) {
		return // the wanted state is unknown
	}
	setOrRemove(status, o, nvidiav1beta1.ConditionRolledOut, rolloutCondition(o, wanted, o.now))
}

// rolloutCondition reports the progress of each component whose replicas are being replaced, and whether the user has paused, limited or
// aborted the update. It returns nil if no replica is being replaced and no update is aborted.
func rolloutCondition(o observed, wanted *render.Graph, now time.Time) *condition {
	rolling, parts := rollingParts(o)
	reason, lead := controlledReason(o, wanted, len(parts) > 0, now)
	if reason == "" && len(parts) == 0 {
		return nil
	}
	var leads []string
	if lead != "" {
		leads = append(leads, lead)
	}
	if defersRestart(o, wanted) {
		leads = append(leads, fmt.Sprintf("restart %s begins when the update is neither paused nor limited by its partition",
			limit.Text(o.dgd.Spec.Restart.ID, maxRestartID)))
	}
	return no(nvidiav1beta1.ConditionRolledOut, cmp.Or(reason, rolling), strings.Join(append(leads, parts...), ". "))
}

// controlledReason returns the reason of the condition and the beginning of its message if the user has aborted or paused the update, or if
// the progress deadline has passed; "" otherwise. rolling reports whether replicas are being replaced.
func controlledReason(o observed, wanted *render.Graph, rolling bool, now time.Time) (reason, lead string) {
	control := controlOf(o)
	switch {
	case wanted != nil && wanted.RolledBack && control.Paused && rolling:
		return nvidiav1beta1.ReasonRolledBack, rolledBack(wanted) + "; the return is paused"
	case wanted != nil && wanted.RolledBack:
		return nvidiav1beta1.ReasonRolledBack, rolledBack(wanted)
	case wanted != nil && abortsInVain(o, wanted):
		return nvidiav1beta1.ReasonRolloutPaused,
			"generation " + wanted.Generation + " is aborted, and no other generation of the same workers is stored to return to: nothing is " +
				"replaced"
	case !rolling:
		return "", ""
	case control.Paused:
		return nvidiav1beta1.ReasonRolloutPaused, "the update is paused"
	case control.Partition != nil && pausedGroups(o):
		return nvidiav1beta1.ReasonRolloutPaused, fmt.Sprintf("the update is paused at %s of the workers, its partition",
			control.Partition.String())
	case overdue(o, now):
		last, _ := lastProgress(o)
		return nvidiav1beta1.ReasonProgressDeadlineExceeded, fmt.Sprintf(
			"no further replica has become available since %s, longer than %s", last.UTC().Format(time.RFC3339), control.ProgressDeadline)
	}
	return "", ""
}

// controlOf returns the user's settings for updates, such as pause and partition. It returns the zero value for a provider that makes the
// pods itself.
func controlOf(o observed) rollout.Control {
	if o.provider.Name != "" && !specs.Named(o.provider.Name).Planned {
		return rollout.Control{}
	}
	control, _ := rollout.ControlOf(o.dgd)
	return control
}

// rolledBack describes which generation was aborted, and what ends the rollback.
func rolledBack(wanted *render.Graph) string {
	to := "none"
	if stored, one := wanted.Stored(); one && stored.Generation != "" {
		to = stored.Generation
	}
	return fmt.Sprintf("generation %s was aborted: the workers are of generation %s until they are changed again, or the annotation %s is "+
		"removed",
		wanted.Generation, to, rollout.AnnotationAborted)
}

// pausedGroups reports whether a group's update is paused.
func pausedGroups(o observed) bool {
	for _, sg := range o.groups {
		if sg.Spec.Step != nil && sg.Spec.Step.Paused {
			return true
		}
	}
	return false
}

// lastProgress returns the time of the running update's last progress in any component, including components that have completed the
// update. running is false if no update runs, or if the update is paused.
func lastProgress(o observed) (last time.Time, running bool) {
	for _, sg := range o.groups {
		at := doneAt(sg)
		if p := sg.Status.Progress; p != nil && p.Paused {
			return time.Time{}, false
		} else if p != nil {
			at, running = p.Time.Time, true
		}
		if at.After(last) {
			last = at
		}
	}
	return last, running
}

// doneAt returns the time at which the last update of a group ended; zero if there was none.
func doneAt(sg *trellisv1alpha1.ScalingGroup) time.Time {
	c := meta.FindStatusCondition(sg.Status.Conditions, trellisv1alpha1.ConditionRolledOut)
	if c == nil || c.Status != metav1.ConditionTrue {
		return time.Time{}
	}
	return c.LastTransitionTime.Time
}

// progressDueIn returns the time until the running update's deadline; 0 if no deadline applies or the deadline has passed.
func progressDueIn(o observed, now time.Time) time.Duration {
	control, _ := rollout.ControlOf(o.dgd)
	last, running := lastProgress(o)
	if !running || control.ProgressDeadline == 0 {
		return 0
	}
	return max(0, last.Add(control.ProgressDeadline).Sub(now))
}

// sooner returns the smaller of two delays. A delay of 0 means never.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// overdue reports whether the user's progress deadline has passed since the last progress of the update.
func overdue(o observed, now time.Time) bool {
	control, _ := rollout.ControlOf(o.dgd)
	last, running := lastProgress(o)
	return running && control.ProgressDeadline > 0 && !now.Before(last.Add(control.ProgressDeadline))
}

// rollingParts returns a text about the progress of each component whose replicas are being replaced, and the reason for the condition
// RolledOut.
func rollingParts(o observed) (reason string, parts []string) {
	reason = nvidiav1beta1.ReasonRollingOut
	for _, name := range sortedNames(o) {
		sg := o.groups[name]
		if sg == nil || !meta.IsStatusConditionFalse(sg.Status.Conditions, trellisv1alpha1.ConditionRolledOut) {
			continue
		}
		c := meta.FindStatusCondition(sg.Status.Conditions, trellisv1alpha1.ConditionRolledOut)
		part := name + ": " + strings.Replace(c.Message, rollout.WaitsForOthers, waitsFor(o, name), 1)
		if c.Reason == trellisv1alpha1.ReasonRolloutWaitsForCapacity {
			if why, refused := refusalOf(o, sg); refused {
				reason = nvidiav1beta1.ReasonRolloutWaitsForCapacity
				part += why
			}
		}
		parts = append(parts, part)
	}
	return reason, parts
}

// maxBlocking is the maximum number of components that a message names as blocking other components.
const maxBlocking = 3

// waitsFor describes for which components a component waits: the components with the smallest share of replicas that serve the new
// generation. If no other component has this share, the component waits for its own next step.
func waitsFor(o observed, name string) string {
	var stepped []*trellisv1alpha1.ScalingGroup
	for _, name := range sortedNames(o) {
		if sg := o.groups[name]; sg != nil && sg.Spec.Step != nil && sg.Spec.Replicas > 0 {
			stepped = append(stepped, sg)
		}
	}
	if len(stepped) == 0 {
		return rollout.WaitsForOthers
	}
	least := slices.MinFunc(stepped, compareServed)
	var names []string
	for _, sg := range stepped {
		if compareServed(sg, least) == 0 && sg.Spec.Component != name {
			names = append(names, sg.Spec.Component)
		}
	}
	if len(names) == 0 {
		return "waits for its next step"
	}
	return rollout.WaitsForOthers + ": " + strings.Join(limit.First(names, maxBlocking, "components"), ", ")
}

// compareServed compares groups by the share of their replicas that serve the new generation.
func compareServed(a, b *trellisv1alpha1.ScalingGroup) int {
	return cmp.Compare(
		int64(a.Status.UpdatedAvailableReplicas)*int64(b.Spec.Replicas), int64(b.Status.UpdatedAvailableReplicas)*int64(a.Spec.Replicas))
}

// refusalOf returns why the scheduler does not place a replica for which an update waits. refused is false if no refusal is known, for
// example because the scheduler has not evaluated the replica. If the kube-scheduler places the replicas of the group, refused is true and
// why is empty, because the kube-scheduler reports refusals on the pods.
func refusalOf(o observed, sg *trellisv1alpha1.ScalingGroup) (why string, refused bool) {
	if !render.Gated(sg) {
		return "", true
	}
	for _, w := range slices.Concat(o.result.Waiting, o.result.Surplus) {
		if w.Component == sg.Spec.Component && w.Code != gang.CodeCreating {
			return fmt.Sprintf(": replica %d: %s", w.Ordinal, w.Message), true
		}
	}
	return "", false
}

// rollingUpdateOf returns the status of one update of all components whose revision changed. The update lasts from the first change until
// the last component serves its new revision, and includes changes in between.
func rollingUpdateOf(o observed, wanted *render.Graph, now metav1.Time) *nvidiav1beta1.RollingUpdateStatus {
	before := o.dgd.Status.RollingUpdate
	running := before != nil && before.EndTime == nil && before.StartTime != nil
	rolling, begun := rollingComponents(o, wanted, running)
	if len(rolling) == 0 && !running {
		return before
	}
	s := &nvidiav1beta1.RollingUpdateStatus{Phase: nvidiav1beta1.RollingUpdatePending, StartTime: &now}
	if running {
		s.StartTime = before.StartTime
	}
	s.UpdatedComponents = doneSince(o, rolling, s.StartTime)
	switch {
	case len(rolling) == 0:
		s.Phase, s.EndTime = nvidiav1beta1.RollingUpdateCompleted, &now
	case begun:
		s.Phase = nvidiav1beta1.RollingUpdateInProgress
	}
	return s
}

// rollingComponents returns the components that do not fully run their wanted revision. During an update it includes components that serve
// fewer replicas than wanted, because a rollback to the last revision is complete only when the replaced replicas serve again. begun
// reports whether the ScalingGroup of at least one of these components has the wanted revision in its spec.
func rollingComponents(o observed, wanted *render.Graph, running bool) (rolling map[string]bool, begun bool) {
	rolling = map[string]bool{}
	revisions := map[string]string{}
	if wanted != nil {
		for i := range wanted.Components {
			revisions[wanted.Components[i].Name] = wanted.Components[i].Revision
		}
	}
	for name, sg := range o.groups {
		revision := revisions[name]
		if revision == "" {
			revision = sg.Spec.Revision
		}
		if sg.Status.Revision != "" && sg.Status.Revision != revision || hasOthers(sg) ||
			running && meta.IsStatusConditionFalse(sg.Status.Conditions, trellisv1alpha1.ConditionRolledOut) {
			rolling[name] = true
			begun = begun || sg.Spec.Revision == revision
		}
	}
	return rolling, begun
}

// doneSince lists the components whose rollout was completed after start.
func doneSince(o observed, rolling map[string]bool, start *metav1.Time) []string {
	var done []string
	for _, name := range sortedNames(o) {
		sg := o.groups[name]
		if sg == nil || rolling[name] {
			continue
		}
		c := meta.FindStatusCondition(sg.Status.Conditions, trellisv1alpha1.ConditionRolledOut)
		if c != nil && c.Status == metav1.ConditionTrue && c.LastTransitionTime.Unix() >= start.Unix() {
			done = append(done, name)
		}
	}
	return done
}
