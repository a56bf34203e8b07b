// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/whatif"
)

// result compares the operator's condition Placed with the current plan.
func (s *Subject) result(plan whatif.Plan, planned bool) Result {
	v := Result{Planned: planned}
	c := meta.FindStatusCondition(s.DGD.Status.Conditions, nvidiav1beta1.ConditionPlaced)
	if c == nil {
		v.Text = "The operator has not reported on the deployment yet: it has no condition Placed. Is the operator running?"
		return v
	}
	placed := c.Status == metav1.ConditionTrue
	v.Placed, v.Reason, v.Message, v.Since = &placed, c.Reason, c.Message, &c.LastTransitionTime
	if !planned {
		v.Text = "This is the operator's last report; nothing was planned again."
		return v
	}
	if v.Agrees, v.Text = compare(c, plan); s.Operator.Exit() != nil && !placed && len(plan.Waiting()) == 0 {
		v.Text = "There is capacity for everything, and the operator is not running."
	}
	return v
}

// otherCauses maps reasons of the condition Placed to explanations. These reasons do not depend on capacity, so a plan does not find them.
var otherCauses = map[string]string{
	gang.CodeRequeued:            "The gang could not be bound: it was evicted, and is placed again after a pause.",
	gang.CodeCreating:            "Not all of its pods are created yet.",
	gang.CodeProviderNotReady:    "The provider that places it is not ready.",
	gang.CodeSchedulerRefuses:    "It is released, and the provider's scheduler does not bind it.",
	gang.CodeUnschedulable:       "It is released, and the scheduler refuses one of its pods.",
	gang.CodeSchedulingBlocked:   "It is released, and nothing tries to bind its pods.",
	gang.CodePreempting:          "It is released, and pods of lower priority have to leave before it can be bound.",
	gang.CodePodsNotEnding:       "It waits to be recreated: one of its pods does not terminate.",
	gang.CodeWaitingForAdmission: "It waits for another controller to remove a scheduling gate from its pods.",
	gang.CodeReleaseRefused:      "The API server refuses what its release writes.",
	gang.CodeRecordFull:          "It has capacity, and the deployment's GraphPlacement has no space for more gangs that are not bound.",

	gang.CodeOutsideGraphDomain:         "Its pods run, and by the labels that nodes have now some are outside the deployment's domain.",
	gang.CodeOutsideReplicaDomain:       "Its pods run, and by the labels that nodes have now some are outside the domain of their replica.",
	gang.CodeRefusedEverywhere:          "A scheduler refused it wherever it has capacity, and these places are left out for a while.",
	nvidiav1beta1.ReasonCreationRefused: "Scaling groups or pods of it cannot be created.",
}

// compare reports whether the plan agrees with the condition. text describes the result and, if plan and condition differ, a possible
// explanation.
func compare(c *metav1.Condition, plan whatif.Plan) (agrees bool, text string) {
	placed := c.Status == metav1.ConditionTrue
	waits := plan.Waiting()
	switch {
	case placed && len(waits) == 0:
		return true, "The operator reports the same: every packed replica is placed."
	case placed && onlyCreating(waits):
		return true, "The operator reports the same: every packed replica is placed, or will be once its pods are recreated."
	case placed:
		return false, "The operator reports every packed replica as placed; planned again now, some do not fit. It may not have seen the " +
			"change yet."
	case len(waits) == 0 && gang.IsOutside(c.Reason):
		return true, otherCauses[c.Reason]
	case len(waits) == 0 && otherCauses[c.Reason] != "":
		return true, "There is capacity for everything. " + otherCauses[c.Reason]
	case len(waits) == 0:
		return false, "The operator reports a replica as waiting; planned again now, everything fits. It may be about to act, or hold that " +
			"capacity for pods that are being recreated or for a deployment that has waited longer."
	}
	reason := slices.ContainsFunc(waits, func(w gang.Waiting) bool { return w.Code == c.Reason })
	switch {
	case !reason && c.Reason == nvidiav1beta1.ReasonCreationRefused:
		return true, "Pods of it cannot be created, and there is no capacity for all of it either."
	case !reason:
		return false, "The operator gives a different reason than the current plan: " + c.Reason + ". It may not have seen the latest change yet."
	case !SameWords(plan, c.Message):
		return false, "The operator reports the same reason with other numbers: the cluster has changed since."
	}
	return true, "The operator reports the same."
}

// SameWords reports whether the operator's message about waiting replicas begins with the message that the plan would produce.
func SameWords(plan whatif.Plan, message string) bool {
	words := plan.Words()
	return words != "" && strings.HasPrefix(message, words)
}

// compareWithPods adds to the result the replicas that lack pods although the operator reports every replica as placed. It skips replicas
// whose pods cannot be created, because the report already explains them.
func (r *Explanation) compareWithPods() {
	v := &r.Result
	if v.Placed == nil || !*v.Placed {
		return
	}
	var missing []string
	for i := range r.Replicas {
		if one := &r.Replicas[i]; one.State == StateCreating && !r.refuses(one) {
			missing = append(missing, fmt.Sprintf("%s-%d", one.Component, one.Replica))
		}
	}
	if len(missing) > 0 {
		v.Agrees = false
		v.Text = "The operator reports every packed replica as placed, but pods are missing of " + some(missing, maxMissing) +
			". It has not reported that yet."
	}
}

// maxMissing is the maximum number of replicas with missing pods that are named.
const maxMissing = 4

func onlyCreating(waiting []gang.Waiting) bool {
	return !slices.ContainsFunc(waiting, func(w gang.Waiting) bool { return w.Code != gang.CodeCreating })
}
