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
	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/whatif"
)

// advise plans changes that may help the deployment, and reports the changes that help.
func (s *Subject) advise(r *Explanation, planner *whatif.Planner, plan *whatif.Plan) {
	if len(plan.Waiting()) == 0 {
		return
	}
	if r.Moves != nil {
		r.Advice = append(r.Advice, r.Moves.advice())
	}
	for i := range r.Waiting {
		if a := r.Waiting[i].advice; a != nil {
			r.Advice = append(r.Advice, *a)
		}
	}
	s.adviseRestart(r, planner, plan)
	s.advisePriority(r, planner, plan)
}

// advisePriority names the components with the lowest priority, because this priority applies to the whole deployment. It also plans the
// deployment with the priority class of the component with the highest priority.
func (s *Subject) advisePriority(r *Explanation, planner *whatif.Planner, plan *whatif.Plan) {
	list := planner.Priorities(plan)
	if list == nil {
		return
	}
	lowest, highest := list[0], list[len(list)-1]
	var low []string
	for _, one := range list {
		if one.Priority == lowest.Priority {
			low = append(low, one.Component)
		}
	}
	class := "no priority class"
	if lowest.Class != "" {
		class = "priority class " + lowest.Class
	}
	note := fmt.Sprintf("The deployment has the lowest priority of its components, %d: %s has %s. %s has %s, %d.",
		lowest.Priority, strings.Join(low, ", "), class, highest.Component, highest.Class, highest.Priority)
	r.Notes = append([]string{note}, r.Notes...)
	if lowest.Class != "" || highest.Class == "" {
		return
	}
	if more, victims := planner.Prioritized(plan, highest.Class); more > 0 {
		effect := fmt.Sprintf("With priority class %s for %s, %d of the waiting replicas are placed at once", highest.Class,
			strings.Join(low, ", "), more)
		if victims != "" {
			effect += "; preempted: " + victims
		}
		r.Advice = append(r.Advice, Advice{Effect: effect + ".", Commands: []string{fmt.Sprintf(
			`kubectl patch dgd -n %s %s --type=merge -p '{"spec":{"priorityClassName":"%s"}}'`, plan.Namespace, plan.Name, highest.Class)}})
	}
}

// adviseRestart plans a Parallel restart if packed replicas run, and other replicas are refused for a reason that a restart may resolve.
func (s *Subject) adviseRestart(r *Explanation, planner *whatif.Planner, plan *whatif.Plan) {
	if !anchored(plan) || s.restartWaits() {
		return
	}
	lacks, elsewhere := false, false
	for _, w := range plan.Waiting() {
		lacks = lacks || slices.Contains(movable, w.Code)
		elsewhere = elsewhere || w.Refusal != nil && len(w.Refusal.Elsewhere) > 0
	}
	if !lacks {
		return
	}
	restart, planned := planner.Restart(plan)
	switch {
	case !planned:
	case restart.Complete():
		r.Advice = append(r.Advice, Advice{
			Effect:   fmt.Sprintf("A Parallel restart places it: %s. It does not serve meanwhile.", restart.Text()),
			Commands: []string{fmt.Sprintf("kubectl trellis rollout restart --parallel dgd/%s -n %s", plan.Name, plan.Namespace)},
		})
	case elsewhere:
		r.Withheld = append(r.Withheld, fmt.Sprintf("A Parallel restart does not help: %s.", restart.Text()))
	}
}

// movable are the codes of refusals that may no longer apply once the pods of the graph itself are gone.
var movable = []string{placement.CodeInsufficientCapacity, placement.CodeDomainGone, placement.CodeAnchorConflict}

// anchored reports whether packed replicas run. Waiting replicas may then be placed only in the domain of these replicas.
func anchored(plan *whatif.Plan) bool {
	for i := range plan.Replicas {
		if one := &plan.Replicas[i]; one.Running && !one.Free {
			return true
		}
	}
	return false
}

// restartWaits reports whether a restart would have to wait because the update is paused or was aborted.
func (s *Subject) restartWaits() bool {
	c := meta.FindStatusCondition(s.DGD.Status.Conditions, nvidiav1beta1.ConditionRolledOut)
	return c != nil && c.Status == metav1.ConditionFalse &&
		(c.Reason == nvidiav1beta1.ReasonRolloutPaused || c.Reason == nvidiav1beta1.ReasonRolledBack)
}
