// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/cli/live"
	"github.com/trellis-k8s/trellis/internal/constraint"
	"github.com/trellis-k8s/trellis/internal/limit"
	"github.com/trellis-k8s/trellis/internal/whatif"
)

// Build makes the report. It plans the waiting replicas again, and drops the plan.
func Build(s *Subject) Explanation {
	r := Explanation{
		Namespace: s.DGD.Namespace, Name: s.DGD.Name, State: string(s.DGD.Status.State),
		Replicas: []Replica{}, Waiting: []Cause{}, Conditions: s.conditions(), Events: s.events(), Operator: s.Operator, now: s.Now,
	}
	if s.DGD.Status.Placement != nil {
		r.Domain = s.DGD.Status.Placement.Domain
	}
	r.Notes = s.notes()
	planner := whatif.NewPlanner(s.World)
	planner.ListDomains()
	planner.Begin()
	defer planner.Rollback()
	plan, problem := s.plan(planner)
	if problem != "" {
		r.Notes = append(r.Notes, problem)
	} else {
		r.Domain = cmp.Or(plan.Domain.String(), r.Domain)
	}
	r.Replicas = s.replicas(plan)
	if problem == "" && s.mayPlan() {
		r.Waiting = CausesOf(planner, plan, maxHosts)
		r.Moves = s.moves(planner, &plan)
		s.advise(&r, planner, &plan)
		r.Notes = append(r.Notes, s.misplacedLevels(planner)...)
	}
	r.Waiting = append(r.Waiting, s.refusedCreates(r.Replicas)...)
	r.Transfer = s.transfer(planner, &plan, problem == "" && s.mayPlan())
	r.Result = s.result(plan, problem == "" && s.mayPlan())
	r.compareWithPods()
	return r
}

// mayPlan reports whether the user may read the objects that a plan needs.
func (s *Subject) mayPlan() bool { return !s.Lacks(live.Nodes) && !s.Lacks(live.Pods) }

// plan plans the unchanged deployment. If the deployment cannot be planned, plan returns a description of the problem.
func (s *Subject) plan(planner *whatif.Planner) (whatif.Plan, string) {
	if errs := planner.Check(s.DGD); len(errs) > 0 {
		return whatif.Plan{}, "The deployment is not valid, so nothing is done for it until it is corrected: " +
			bounded(errs.ToAggregate().Error())
	}
	plan, err := planner.Plan(s.DGD)
	if err != nil {
		return plan, "Nothing can be planned again: " + bounded(err.Error())
	}
	return plan, ""
}

// misplacedLevels describes the levels of the topology that contradict the labels of nodes. It returns nothing if a condition of the
// topology already reports these levels.
func (s *Subject) misplacedLevels(planner *whatif.Planner) []string {
	ct := s.Topology(constraint.TopologyName(s.DGD))
	if ct == nil || meta.IsStatusConditionFalse(ct.Status.Conditions, grovev1alpha1.ConditionHierarchyConsistent) {
		return nil
	}
	return planner.MisplacedBy(s.DGD)
}

func bounded(text string) string { return limit.Text(text, 1000) }

// notes describes the limits of the report, such as missing rights or a spec that the operator has not processed yet.
func (s *Subject) notes() []string {
	var notes []string
	if len(s.Denied) > 0 {
		text := fmt.Sprintf("You may not %s in the whole cluster.", s.Lacking())
		if !s.mayPlan() {
			text += " So nothing can be planned again: this shows what the operator and the pods report. " +
				"The ClusterRole trellis-planner-role has the missing rights."
		}
		notes = append(notes, text)
	}
	if s.EventsHidden {
		notes = append(notes, "You may not list events in this namespace.")
	}
	if seen := s.DGD.Status.ObservedGeneration; seen < s.DGD.Generation && seen > 0 {
		notes = append(notes, fmt.Sprintf("The operator has not taken over the last change of the spec yet: it is at generation %d of %d.", seen,
			s.DGD.Generation))
	}
	if s.DGD.DeletionTimestamp != nil {
		notes = append(notes, "The deployment is being deleted.")
	}
	return notes
}

// conditions lists the conditions of the deployment, its scaling groups and its topology that are not True. It omits the topology's
// conditions InUse and Default, because for them False is no problem.
func (s *Subject) conditions() []Condition {
	list := bad("", s.DGD.Status.Conditions)
	for _, sg := range s.groups() {
		list = append(list, bad("ScalingGroup "+sg.Name, sg.Status.Conditions)...)
	}
	if ct := s.Topology(constraint.TopologyName(s.DGD)); ct != nil {
		idle := func(c Condition) bool {
			return c.Type == grovev1alpha1.ConditionInUse || c.Type == grovev1alpha1.ConditionDefault
		}
		list = append(list, slices.DeleteFunc(bad(ct.Source()+" "+ct.Name, ct.Status.Conditions), idle)...)
	}
	return list
}

// groups returns the deployment's scaling groups, sorted by component.
func (s *Subject) groups() []*trellisv1alpha1.ScalingGroup {
	var list []*trellisv1alpha1.ScalingGroup
	for _, sg := range s.Groups {
		if sg.Namespace == s.DGD.Namespace && sg.Spec.Graph == s.DGD.Name {
			list = append(list, sg)
		}
	}
	slices.SortFunc(list, func(a, b *trellisv1alpha1.ScalingGroup) int {
		return strings.Compare(a.Spec.Component, b.Spec.Component)
	})
	return list
}

func bad(object string, conditions []metav1.Condition) []Condition {
	list := []Condition{}
	for _, c := range conditions {
		if c.Status != metav1.ConditionTrue {
			list = append(list, Condition{
				Object: object, Type: c.Type, Status: string(c.Status), Reason: c.Reason, Message: c.Message, Since: c.LastTransitionTime,
			})
		}
	}
	return list
}

// maxEvents bounds the number of shown events.
const maxEvents = 8

func (s *Subject) events() []Event {
	list := []Event{}
	for i := range s.Events {
		e := &s.Events[i]
		list = append(list, Event{
			Time: timeOf(e), Type: e.Type, Reason: e.Reason, Object: e.InvolvedObject.Kind + "/" + e.InvolvedObject.Name, Message: e.Message,
		})
	}
	slices.SortFunc(list, func(a, b Event) int {
		return cmp.Or(b.Time.Compare(a.Time.Time), strings.Compare(a.Object, b.Object), strings.Compare(a.Reason, b.Reason),
			strings.Compare(a.Message, b.Message))
	})
	return list[:min(len(list), maxEvents)]
}

// timeOf returns the time at which an event last occurred.
func timeOf(e *corev1.Event) metav1.Time {
	switch {
	case e.Series != nil:
		return metav1.NewTime(e.Series.LastObservedTime.Time)
	case !e.LastTimestamp.IsZero():
		return e.LastTimestamp
	case !e.EventTime.IsZero():
		return metav1.NewTime(e.EventTime.Time)
	}
	return e.CreationTimestamp
}
