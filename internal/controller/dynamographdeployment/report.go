// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package dynamographdeployment

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/controller/pace"
	"github.com/trellis-k8s/trellis/internal/controller/statuspatch"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/limit"
	"github.com/trellis-k8s/trellis/internal/quota"
	"github.com/trellis-k8s/trellis/internal/render"
)

// report writes the status if it changed, and then sends the events for the change. It delays a change that can wait; again is the
// remaining delay.
func (r *Reconciler) report(ctx context.Context, o observed, status nvidiav1beta1.DynamoGraphDeploymentStatus) (again time.Duration,
	err error) {
	name := client.ObjectKeyFromObject(o.dgd)
	switch before := &o.dgd.Status; {
	case equality.Semantic.DeepEqual(*before, status):
		r.written.Settled(name)
		return 0, nil
	case beginning(before, &status, o.quota):
		again = r.written.First(name, pace.Interval)
	case canWait(before, &status):
		again = r.written.Left(name)
	}
	if again > 0 {
		return again, nil
	}
	switch written, err := statuspatch.Write(ctx, r.Deployments, o.dgd.DeepCopy(), status); {
	case err != nil:
		return 0, fmt.Errorf("writing the status: %w", err)
	case !written:
		return 0, nil
	}
	r.written.Wrote(name)
	for _, c := range status.Conditions {
		before := meta.FindStatusCondition(o.dgd.Status.Conditions, c.Type)
		if kind, action := eventFor(before, c, changing(o, before)); kind != "" {
			r.Recorder.Eventf(o.dgd, nil, kind, c.Reason, action, "%s: %s", c.Type, c.Message)
		}
	}
	return 0, nil
}

// beginning reports whether the deployment has no status yet and starts as expected: it is not Ready, and nothing blocks it. For a
// deployment in a Kueue queue, it is expected that Kueue has not decided yet or has not removed its gate yet.
func beginning(before, now *nvidiav1beta1.DynamoGraphDeploymentStatus, of *quota.Report) bool {
	asked, given := of != nil && of.Undecided, of != nil && of.Reserved
	return len(before.Conditions) == 0 && before.State == "" && now.State == nvidiav1beta1.StatePending && now.Restart == nil &&
		now.RollingUpdate == nil &&
		!slices.ContainsFunc(now.Conditions, func(c metav1.Condition) bool {
			switch {
			case c.Status != metav1.ConditionFalse, c.Type == nvidiav1beta1.ConditionReady:
				return false
			case c.Type == nvidiav1beta1.ConditionPlaced:
				return c.Reason != gang.CodeCreating && (c.Reason != gang.CodeWaitingForAdmission || !asked && !given)
			}
			return c.Type != nvidiav1beta1.ConditionQuotaReserved || !asked
		})
}

// canWait reports whether only counts, messages, placements and the reason of the condition Ready have changed. Changes of other
// conditions, of the state, and of the progress of a restart or update are written at once, because clients and later reconciles act on
// them.
func canWait(before, now *nvidiav1beta1.DynamoGraphDeploymentStatus) bool {
	return before.ObservedGeneration == now.ObservedGeneration && before.State == now.State && before.Summary == now.Summary &&
		before.Provider == now.Provider && !pace.Turned(before.Conditions, now.Conditions, nvidiav1beta1.ConditionReady) &&
		equality.Semantic.DeepEqual(before.Restart, now.Restart) && equality.Semantic.DeepEqual(before.RollingUpdate, now.RollingUpdate)
}

// EventChangeNotRolledOut reports that pods do not get a change made during an upgrade of the operator.
const EventChangeNotRolledOut = "ChangeNotRolledOut"

// reportAdopted sends a Warning if running pods were adopted after the deployment was changed while no operator ran. An upgrade of the
// operator replaces no pods, and the operator cannot determine whether the change concerned the pods. The Warning is sent once: the groups
// then store the input of their pods, with which the next change is compared.
func (r *Reconciler) reportAdopted(o observed, wanted *render.Graph) {
	if o.dgd.Status.ObservedGeneration == o.dgd.Generation {
		return
	}
	var adopted []string
	for i := range wanted.Components {
		if wanted.Components[i].Adopted {
			adopted = append(adopted, wanted.Components[i].Name)
		}
	}
	if len(adopted) > 0 {
		r.Recorder.Eventf(o.dgd, nil, corev1.EventTypeWarning, EventChangeNotRolledOut, "Report", "%s", limit.Text(fmt.Sprintf(
			"the deployment was changed while the operator was upgraded. Scaling is applied; a change to the pods of %s is not rolled out. To "+
				"roll it out, change another field of their pods, for example an annotation",
			strings.Join(adopted, ", ")), limit.Condition))
	}
}

// EventSpecRestored reports that the operator has applied the spec of a scaling group again after an edit by another client.
const EventSpecRestored = "SpecRestored"

// reportEdit sends a Warning when the spec of a group was applied again because another client had changed it. existing is the edited
// group.
func (r *Reconciler) reportEdit(o observed, existing *trellisv1alpha1.ScalingGroup) {
	if edit := render.EditOf(existing); edit != nil {
		r.Recorder.Eventf(o.dgd, nil, corev1.EventTypeWarning, EventSpecRestored, "Apply", "%s", limit.Text(fmt.Sprintf(
			"ScalingGroup %s: %s changed %s of its spec, which only Trellis writes; the spec is applied again. Change the "+
				"DynamoGraphDeployment instead",
			existing.Name, strings.Join(edit.Managers, ", "), strings.Join(edit.Fields, ", ")), limit.Condition))
	}
}

// changing reports whether a requested change is not complete: the deployment has changed since the condition was written, or a scaling
// group has changed since its controller last observed it.
func changing(o observed, before *metav1.Condition) bool {
	if before != nil && before.ObservedGeneration != o.dgd.Generation {
		return true
	}
	for _, sg := range o.groups {
		if sg.Status.ObservedGeneration != sg.Generation {
			return true
		}
	}
	return false
}

// eventFor returns the event for a change of a condition. A change to True is a Normal event. A change to False, or to a new reason while
// False, is a Warning, except for the progress of updates and moves, and for a deployment that is not ready during a scale-out or update.
// An ownership conflict is a Warning. Expected states have no event, see [expected].
func eventFor(before *metav1.Condition, now metav1.Condition, changing bool) (kind, action string) {
	if before != nil && before.Status == now.Status && before.Reason == now.Reason {
		return "", ""
	}
	switch now.Reason {
	case nvidiav1beta1.ReasonRollingOut, nvidiav1beta1.ReasonRolloutPaused, nvidiav1beta1.ReasonRolledBack,
		nvidiav1beta1.ReasonMoving, nvidiav1beta1.ReasonOwnershipConflictResolved:
		return corev1.EventTypeNormal, "Report"
	case nvidiav1beta1.ReasonOwnershipConflict: // the only condition for which True is a problem
		return corev1.EventTypeWarning, "Report"
	}
	switch {
	case expected(before, now):
		return "", ""
	case now.Status == metav1.ConditionTrue,
		now.Reason == nvidiav1beta1.ReasonRollingUpdate,
		now.Reason == nvidiav1beta1.ReasonSomeResourcesNotReady && changing:
		return corev1.EventTypeNormal, "Report"
	}
	return corev1.EventTypeWarning, "Report"
}

// expected reports whether the condition needs no event: pods are still being created, a deployment that was not Ready before is still not
// Ready without a failure, or the provider or the topology levels were available from the start.
func expected(before *metav1.Condition, now metav1.Condition) bool {
	if now.Status == metav1.ConditionTrue {
		return before == nil && (now.Type == nvidiav1beta1.ConditionProviderReady || now.Type == nvidiav1beta1.ConditionTopologyLevelsAvailable)
	}
	wasReady := before != nil && before.Status == metav1.ConditionTrue
	return now.Reason == gang.CodeCreating ||
		now.Type == nvidiav1beta1.ConditionReady && !wasReady && now.Reason != nvidiav1beta1.ReasonFailedToReconcile
}
