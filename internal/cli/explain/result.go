// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/scheduler"
	"github.com/trellis-k8s/trellis/internal/whatif"
)

// result puts the operator's word, the condition Placed, beside the plan of now.
func (s *Snapshot) result(plan whatif.Graph, planned bool) Result {
	v := Result{Planned: planned}
	c := meta.FindStatusCondition(s.DGD.Status.Conditions, nvidiav1beta1.ConditionPlaced)
	if c == nil {
		v.Text = "The operator has not judged the deployment yet: it has no condition Placed. Is the operator running?"
		return v
	}
	placed := c.Status == metav1.ConditionTrue
	v.Placed, v.Reason, v.Message, v.Since = &placed, c.Reason, c.Message, &c.LastTransitionTime
	if !planned {
		v.Text = "The operator's word stands alone; nothing was planned again."
		return v
	}
	v.Agrees, v.Text = compare(c, plan)
	return v
}

// notForRoom are the operator's reasons that no plan can know of.
var notForRoom = map[string]string{
	scheduler.CodeTakenBack:         "The operator took it back because it could not be bound, and waits before it tries again.",
	scheduler.CodeCreating:          "The operator waits until all of its pods are made.",
	scheduler.CodeEngineNotReady:    "The operator waits for the engine that is to place it.",
	scheduler.CodeSchedulerRefuses:  "The operator has let it go there, and the engine's scheduler does not bind it.",
	scheduler.CodeSchedulingBlocked: "The operator has released it, and nothing tries to bind its pods.",
}

// compare says whether both come to the same, and what may be behind it when they do not.
func compare(c *metav1.Condition, plan whatif.Graph) (agrees bool, text string) {
	placed := c.Status == metav1.ConditionTrue
	waits := waitingGangs(plan)
	switch {
	case placed && len(waits) == 0:
		return true, "The operator says the same: every packed replica has its place."
	case placed && onlyCreating(waits):
		return true, "The operator says the same: every packed replica has its place, or gets it when its pods have been made anew."
	case placed:
		return false, "The operator says that every packed replica has its place; planned again now, some have none. It may not have seen the change yet."
	case len(waits) == 0 && notForRoom[c.Reason] != "":
		return true, "There is room for everything. " + notForRoom[c.Reason]
	case len(waits) == 0:
		return false, "The operator says that something waits; planned again now, everything has a place. It may be about to act, or hold that room for pods that are coming back or for a deployment that has waited longer."
	}
	reason, message := false, false
	for _, w := range waits {
		reason = reason || w.Code == c.Reason
		message = message || strings.Contains(c.Message, w.Message)
	}
	switch {
	case !reason:
		return false, "The operator gives another reason than the plan of now: " + c.Reason + ". It may not have seen the latest change yet."
	case !message:
		return false, "The operator gives the same reason with other numbers: the cluster has changed since."
	}
	return true, "The operator says the same."
}

// waitingGangs are the reasons of what the operator would place; pods without a gate are none of its affairs.
func waitingGangs(plan whatif.Graph) []*whatif.Reason {
	var list []*whatif.Reason
	for i := range plan.Replicas {
		if r := &plan.Replicas[i]; r.Reason != nil && !r.Free {
			list = append(list, r.Reason)
		}
	}
	return list
}

func onlyCreating(reasons []*whatif.Reason) bool {
	return !slices.ContainsFunc(reasons, func(r *whatif.Reason) bool { return r.Code != scheduler.CodeCreating })
}
