// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package dynamographdeployment

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/rollout"
)

func rolledOut(sg *trellisv1alpha1.ScalingGroup, is bool, reason string, at time.Time) {
	status := metav1.ConditionFalse
	if is {
		status = metav1.ConditionTrue
	}
	meta.SetStatusCondition(&sg.Status.Conditions, metav1.Condition{
		Type: trellisv1alpha1.ConditionRolledOut, Status: status, Reason: reason, Message: "1 of 2 replicas are of the current revision, 1 serve", LastTransitionTime: metav1.NewTime(at),
	})
}

// TestRollingUpdateStatus follows two components through one update.
func TestRollingUpdateStatus(t *testing.T) {
	clock := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	tick := func() metav1.Time { clock = clock.Add(time.Minute); return metav1.NewTime(clock) }
	newGroup := func() *trellisv1alpha1.ScalingGroup {
		sg := &trellisv1alpha1.ScalingGroup{Spec: trellisv1alpha1.ScalingGroupSpec{Revision: "1"}, Status: trellisv1alpha1.ScalingGroupStatus{Revision: "1"}}
		rolledOut(sg, true, trellisv1alpha1.ReasonUpToDate, clock)
		return sg
	}
	o := observed{
		dgd:    &nvidiav1beta1.DynamoGraphDeployment{Spec: nvidiav1beta1.DynamoGraphDeploymentSpec{Components: []nvidiav1beta1.ComponentSpec{{Name: "a"}, {Name: "b"}, {Name: "idle"}}}},
		groups: map[string]*trellisv1alpha1.ScalingGroup{"a": newGroup(), "b": newGroup(), "idle": newGroup()},
	}
	wanted := &render.Graph{Components: []render.Component{{Name: "a", Revision: "1"}, {Name: "b", Revision: "1"}, {Name: "idle", Revision: "1"}}}
	var scenario []string
	look := func(title string) {
		now := tick()
		before := o.dgd.Status.RollingUpdate
		u := rollingUpdateOf(o, wanted, now)
		o.dgd.Status.RollingUpdate = u
		line := title + ": "
		switch {
		case u == nil:
			line += "none"
		case before != nil && cmp.Equal(before, u):
			line += "as before"
		default:
			line += u.Phase + " [" + strings.Join(u.UpdatedComponents, " ") + "]"
			if u.EndTime != nil {
				line += " after " + u.EndTime.Sub(u.StartTime.Time).String()
			}
		}
		scenario = append(scenario, line)
	}
	finish := func(name string) {
		sg := o.groups[name]
		sg.Status.Revision = sg.Spec.Revision
		rolledOut(sg, true, trellisv1alpha1.ReasonUpToDate, tick().Time)
	}
	begin := func(name string) {
		sg := o.groups[name]
		sg.Spec.Revision = "2"
		rolledOut(sg, false, trellisv1alpha1.ReasonRollingOut, tick().Time)
	}
	look("created")
	wanted.Components[0].Revision, wanted.Components[1].Revision = "2", "2"
	look("edited")
	begin("a")
	begin("b")
	look("the groups know")
	finish("a")
	look("a is done")
	wanted = nil
	look("the object is invalid for a while")
	finish("b")
	look("b is done")
	look("later")
	o.groups["a"].Spec.Revision = "3"
	rolledOut(o.groups["a"], false, trellisv1alpha1.ReasonRollingOut, tick().Time)
	look("a changes")
	o.groups["a"].Spec.Revision = "2"
	look("a returns, and the replaced replicas do not serve yet")
	finish("a")
	look("they serve")
	want := []string{
		"created: none", "edited: Pending []", "the groups know: InProgress []", "a is done: InProgress [a]", "the object is invalid for a while: as before",
		"b is done: Completed [a b] after 8m0s", "later: as before",
		"a changes: InProgress []", "a returns, and the replaced replicas do not serve yet: as before", "they serve: Completed [a] after 3m0s",
	}
	if diff := cmp.Diff(want, scenario); diff != "" {
		t.Errorf("what is reported (-want +got):\n%s", diff)
	}
}

func TestRolloutCondition(t *testing.T) {
	waits := func(o *observed) {
		rolledOut(o.groups["work"], false, trellisv1alpha1.ReasonRolloutWaitsForCapacity, time.Now())
	}
	refusal := gang.Waiting{Component: "work", Ordinal: 2, Code: placement.CodeInsufficientCapacity, Message: "needs more"}
	cases := map[string]struct {
		change          func(o *observed)
		reason, message string
	}{
		"nothing is replaced": {change: func(*observed) {}},
		"on its way": {
			func(o *observed) { rolledOut(o.groups["work"], false, trellisv1alpha1.ReasonRollingOut, time.Now()) },
			nvidiav1beta1.ReasonRollingOut, "work: 1 of 2 replicas are of the current revision, 1 serve",
		},
		"one more has no capacity": {
			func(o *observed) { waits(o); o.result.Surplus = []gang.Waiting{refusal} },
			nvidiav1beta1.ReasonRolloutWaitsForCapacity, "work: 1 of 2 replicas are of the current revision, 1 serve: replica 2: needs more",
		},
		"a successor has no capacity": {
			func(o *observed) { waits(o); o.result.Waiting = []gang.Waiting{refusal} },
			nvidiav1beta1.ReasonRolloutWaitsForCapacity, "work: 1 of 2 replicas are of the current revision, 1 serve: replica 2: needs more",
		},
		"just made, nobody has looked for capacity yet": {
			func(o *observed) { waits(o) }, nvidiav1beta1.ReasonRollingOut, "work: 1 of 2 replicas are of the current revision, 1 serve",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			o := fine()
			o.groups["work"].Spec.Provider = specs.Gates.Name
			c.change(&o)
			got := rolloutCondition(o, nil, time.Now())
			if c.reason == "" {
				if got != nil {
					t.Errorf("got %+v, want no condition", got)
				}
				return
			}
			if got == nil || got.reason != c.reason || got.message != c.message || got.is {
				t.Errorf("got %+v, want False/%s: %s", got, c.reason, c.message)
			}
		})
	}
}

// TestWhichComponentBlocksAStep: the message names the workers that the others wait for, and not the component itself.
func TestWhichComponentBlocksAStep(t *testing.T) {
	o := disaggregated(t)
	edit(o)
	written(t, &o)
	count(o, "prefill", 1, 1)
	count(o, "decode", 4, 0)
	written(t, &o)
	for _, name := range []string{"prefill", "decode"} {
		sg := o.groups[name]
		meta.SetStatusCondition(&sg.Status.Conditions, metav1.Condition{
			Type: trellisv1alpha1.ConditionRolledOut, Status: metav1.ConditionFalse, Reason: trellisv1alpha1.ReasonRollingOut,
			Message: "some replicas serve the current revision; " + rollout.WaitsForOthers,
		})
	}
	want := "decode: some replicas serve the current revision; waits for its next step. " +
		"prefill: some replicas serve the current revision; waits for the other workers of its generation: decode"
	if got := rolloutCondition(o, nil, time.Now()); got == nil || got.message != want {
		t.Errorf("got %+v, want %s", got, want)
	}
}
