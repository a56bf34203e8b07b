// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package dynamographdeployment

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/constraint"
	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/placement"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/topology"
)

// fine is a graph of one packed component with two replicas, all of it as wanted.
func fine() observed {
	topology := &trellisv1alpha1.ResolvedTopology{
		ClusterTopology: "p", GraphPackDomain: "zone", PackDomain: "rack",
		Levels: []trellisv1alpha1.ResolvedLevel{{Domain: "zone", Key: "z"}, {Domain: "rack", Key: "r"}},
	}
	o := observed{
		dgd: &nvidiav1beta1.DynamoGraphDeployment{
			ObjectMeta: metav1.ObjectMeta{Name: "g", Generation: 3},
			Spec: nvidiav1beta1.DynamoGraphDeploymentSpec{
				TopologyConstraint: &nvidiav1beta1.SpecTopologyConstraint{ClusterTopologyName: "p", PackDomain: "zone"},
				Components:         []nvidiav1beta1.ComponentSpec{{Name: "work", Replicas: ptr.To[int32](2)}},
			},
		},
		clusterTopology: &grovev1alpha1.ClusterTopology{Spec: grovev1alpha1.ClusterTopologySpec{
			Levels: []grovev1alpha1.TopologyLevel{{Domain: "zone", Key: "z"}, {Domain: "rack", Key: "r"}},
		}},
		groups: map[string]*trellisv1alpha1.ScalingGroup{"work": {
			ObjectMeta: metav1.ObjectMeta{Name: "g-work", Generation: 5},
			Spec:       trellisv1alpha1.ScalingGroupSpec{Component: "work", Replicas: 2, Topology: topology},
			Status: trellisv1alpha1.ScalingGroupStatus{
				ObservedGeneration: 5, Replicas: 2, UpdatedReplicas: 2, ScheduledReplicas: 2, ReadyReplicas: 2, AvailableReplicas: 2,
			},
		}},
		result: gang.Result{Wanted: 2, Placed: 2, Domain: []string{"a"}, Score: 1}, judged: true,
	}
	o.result.Places.Domain = []string{"a"}
	o.result.Places.Components = map[string][]nvidiav1beta1.ReplicaPlacement{"work": {{Replica: 0, Domain: "a/r1"}, {Replica: 1, Domain: "a/r2"}}}
	o.stated, o.settled = constraint.StatementOf(o.dgd), o.dgd
	return o
}

var resolved = &render.Graph{Components: []render.Component{{Name: "work"}}}

// TestMemoryReadable: annotations that cannot be read are ignored, and a condition reports it until they are gone.
func TestMemoryReadable(t *testing.T) {
	o := fine()
	o.dgd.Annotations = map[string]string{nvidiav1alpha1.AnnotationSpecMemory: "no JSON"}
	status := statusOf(o, resolved, nil, nil)
	c := meta.FindStatusCondition(status.Conditions, nvidiav1beta1.ConditionMemoryReadable)
	if c == nil || c.Status != metav1.ConditionFalse || c.Reason != nvidiav1beta1.ReasonMemoryIgnored || !strings.Contains(c.Message, "metadata.annotations[nvidia.com/dgd-spec] is not JSON") {
		t.Errorf("got %+v", c)
	}
	o.dgd.Annotations, o.dgd.Status = nil, status
	if c := meta.FindStatusCondition(statusOf(o, resolved, nil, nil).Conditions, nvidiav1beta1.ConditionMemoryReadable); c != nil {
		t.Errorf("it stays: %+v", c)
	}
}

// TestConditionOrder: conditions stand in one order, whichever of them came up first. Those of other programs stay in front.
func TestConditionOrder(t *testing.T) {
	o := fine()
	o.judged = false // as after a restart: nothing is known about places
	o.dgd.Status.Conditions = []metav1.Condition{{Type: "Foreign", Status: metav1.ConditionTrue}}
	o.dgd.Status = statusOf(o, resolved, nil, nil)
	if meta.FindStatusCondition(o.dgd.Status.Conditions, nvidiav1beta1.ConditionPlaced) != nil {
		t.Fatalf("Placed does not come up later than Ready: %+v", o.dgd.Status.Conditions)
	}
	o.judged = true
	var got []string
	for _, c := range statusOf(o, resolved, nil, nil).Conditions {
		got = append(got, c.Type)
	}
	want := []string{"Foreign", nvidiav1beta1.ConditionTopologyLevelsAvailable, nvidiav1beta1.ConditionProviderReady,
		nvidiav1beta1.ConditionPlaced, nvidiav1beta1.ConditionReady}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("wanted (-), got (+):\n%s", diff)
	}
}

func TestConditions(t *testing.T) {
	status := func(o observed) *trellisv1alpha1.ScalingGroupStatus { return &o.groups["work"].Status }
	const (
		levels = "TopologyLevelsAvailable=True/AllTopologyLevelsAvailable"
		placed = "Placed=True/AllReplicasPlaced"
		ready  = "Ready=True/all_resources_are_ready"
	)
	cases := map[string]struct {
		change  func(o *observed)
		problem *problem
		failure error
		behind  bool
		want    []string
		message string
	}{
		"all is well": {want: []string{levels, placed, ready, "state successful"}, message: "All resources are ready"},
		"a replica is not ready": {
			change: func(o *observed) { status(*o).ReadyReplicas = 1 },
			want:   []string{levels, placed, "Ready=False/pods_not_ready", "state pending"}, message: "Resources not ready: scalinggroup/g-work: desired=2, ready=1",
		},
		"a replica fails, and is recreated later": {
			change: func(o *observed) {
				s := status(*o)
				s.Replicas, s.UpdatedReplicas, s.ReadyReplicas, s.ScheduledReplicas = 1, 1, 1, 1
				s.Conditions = []metav1.Condition{{Type: trellisv1alpha1.ConditionPodsHealthy, Status: metav1.ConditionFalse, Message: "replica 1 failed, " + strings.Repeat("long ", 100)}}
			},
			want:    []string{levels, placed, "Ready=False/pods_not_ready", "state pending"},
			message: "Resources not ready: scalinggroup/g-work: desired=2, updated=1: replica 1 failed, " + strings.Repeat("long ", 16) + "l...ng " + strings.Repeat("long ", 39),
		},
		"pods are outside their domain": {
			change: func(o *observed) {
				o.result.Outside = []gang.Outside{{Code: gang.CodeOutsideReplicaDomain, Message: "work-0 has 1 of 2 pods outside rack a/r1, in a/r9"}}
			},
			want:    []string{levels, "Placed=False/OutsideReplicaDomain", ready, "state successful"},
			message: "All resources are ready",
		},
		"pods are outside their domain, and others wait": {
			change: func(o *observed) {
				o.result.Outside = []gang.Outside{{Code: gang.CodeOutsideGraphDomain, Message: "work-0 has 1 of 2 pods outside the deployment's zone a, in b"}}
				o.result.Placed, o.result.Waiting = 1, []gang.Waiting{{Component: "work", Ordinal: 1, Code: placement.CodeDomainGone, Message: "no node is in a"}}
				status(*o).ReadyReplicas, status(*o).ScheduledReplicas = 1, 1
			},
			want:    []string{levels, "Placed=False/DomainGone", "Ready=False/some_resources_are_not_ready", "state pending"},
			message: "Resources not ready: scalinggroup/g-work: desired=2, ready=1",
		},
		"a replica has no node yet": {
			change: func(o *observed) { status(*o).ReadyReplicas, status(*o).ScheduledReplicas = 1, 1 },
			want:   []string{levels, placed, "Ready=False/some_resources_are_not_ready", "state pending"}, message: "Resources not ready: scalinggroup/g-work: desired=2, ready=1",
		},
		"one service waits for its pods, another for capacity": {
			change: func(o *observed) {
				status(*o).ReadyReplicas = 1
				o.dgd.Spec.Components = append(o.dgd.Spec.Components, nvidiav1beta1.ComponentSpec{Name: "more"})
				o.groups["more"] = &trellisv1alpha1.ScalingGroup{ObjectMeta: metav1.ObjectMeta{Name: "g-more"}, Spec: trellisv1alpha1.ScalingGroupSpec{Replicas: 1}}
				o.result.Placed = 1
				o.result.Waiting = []gang.Waiting{{Component: "more", Code: placement.CodeInsufficientCapacity, Message: "needs more"}}
			},
			want:    []string{levels, "Placed=False/InsufficientCapacity", "Ready=False/mixed_not_ready_reasons", "state pending"},
			message: "Resources not ready: scalinggroup/g-more: desired=1, updated=0; scalinggroup/g-work: desired=2, ready=1",
		},
		"the scaling group is still of the revision before": {
			change: func(o *observed) { o.groups["work"].Spec.Revision = "before" }, behind: true,
			want: []string{levels, placed, "Ready=False/some_resources_are_not_ready", "state pending"}, message: "Resources not ready: scalinggroup/g-work: being updated",
		},
		"the scaling group does not have the restart yet": {
			change: func(o *observed) { o.groups["work"].Spec.Restart = &trellisv1alpha1.Restart{ID: "before"} }, behind: true,
			want: []string{levels, placed, "Ready=False/some_resources_are_not_ready", "state pending"}, message: "Resources not ready: scalinggroup/g-work: being updated",
		},
		"the scaling group has other replicas": {
			change: func(o *observed) { o.groups["work"].Spec.Replicas = 3 }, behind: true,
			want:    []string{levels, placed, "Ready=False/some_resources_are_not_ready", "state pending"},
			message: "Resources not ready: scalinggroup/g-work: being scaled from 3 to 2 replicas",
		},
		"the scaling group has not counted a scale-out yet": {
			change: func(o *observed) { status(*o).ObservedGeneration, status(*o).Replicas = 4, 1 }, behind: true,
			want:    []string{levels, placed, "Ready=False/some_resources_are_not_ready", "state pending"},
			message: "Resources not ready: scalinggroup/g-work: being scaled from 1 to 2 replicas",
		},
		"the adapter and the deployment disagree: what was agreed on before counts": {
			change: func(o *observed) {
				changed := o.dgd.DeepCopy()
				changed.Component("work").Replicas = ptr.To[int32](7)
				o.dgd = changed
			},
			want: []string{levels, placed, ready, "state successful"}, message: "All resources are ready",
		},
		"a surplus replica still serves": {
			change: func(o *observed) { status(*o).Replicas, status(*o).UpdatedReplicas, status(*o).ReadyReplicas = 3, 2, 3 },
			want:   []string{levels, placed, "Ready=False/rolling_update_in_progress", "state pending"}, message: "Rolling update in progress: scalinggroup/g-work: desired=2, still there=3",
		},
		"all old replicas are gone, the last new one starts": {
			change: func(o *observed) {
				status(*o).ReadyReplicas = 1
				status(*o).Conditions = []metav1.Condition{{Type: trellisv1alpha1.ConditionRolledOut, Status: metav1.ConditionFalse}}
			},
			want:    []string{levels, placed, "RolledOut=False/RollingOut", "Ready=False/rolling_update_in_progress", "state pending"},
			message: "Rolling update in progress: scalinggroup/g-work: desired=2, ready=1",
		},
		"the status of the scaling group is about an older spec": {
			change: func(o *observed) { status(*o).ObservedGeneration = 4 }, behind: true,
			want: []string{levels, placed, "Ready=False/some_resources_are_not_ready", "state pending"}, message: "Resources not ready: scalinggroup/g-work: being updated",
		},
		"the old revision serves, the new one does not yet": {
			change: func(o *observed) { status(*o).UpdatedReplicas = 1 },
			want:   []string{levels, placed, "Ready=False/rolling_update_in_progress", "state pending"}, message: "Rolling update in progress: scalinggroup/g-work: desired=2, updated=1",
		},
		"no capacity": {
			change: func(o *observed) {
				status(*o).ReadyReplicas = 1
				o.result.Placed = 1
				o.result.Waiting = []gang.Waiting{{Component: "work", Ordinal: 1, Code: placement.CodeInsufficientCapacity, Message: "needs more"}}
			},
			want:    []string{levels, "Placed=False/InsufficientCapacity", "Ready=False/insufficient_capacity", "state pending"},
			message: "Resources not ready: scalinggroup/g-work: desired=2, ready=1",
		},
		"a claim does not exist": {
			change: func(o *observed) {
				status(*o).ReadyReplicas = 1
				o.result.Placed = 1
				o.result.Waiting = []gang.Waiting{{
					Component: "work", Ordinal: 1, Code: placement.CodeInsufficientCapacity, Message: "volume claim models does not exist",
					Refusal: &placement.Refusal{Code: placement.CodeBaseGangWaits, Cause: &placement.Refusal{Blocked: "volume claim models does not exist"}},
				}}
			},
			want:    []string{levels, "Placed=False/InsufficientCapacity", "Ready=False/some_resources_are_not_ready", "state pending"},
			message: "Resources not ready: scalinggroup/g-work: desired=2, ready=1, volume claim models does not exist",
		},
		"a claim does not exist, and another replica has no capacity": {
			change: func(o *observed) {
				status(*o).ReadyReplicas = 0
				o.result.Placed = 0
				o.result.Waiting = []gang.Waiting{
					{Component: "work", Ordinal: 0, Code: placement.CodeInsufficientCapacity, Refusal: &placement.Refusal{Blocked: "no claim"}},
					{Component: "work", Ordinal: 1, Code: placement.CodeInsufficientCapacity, Refusal: &placement.Refusal{}},
				}
			},
			want:    []string{levels, "Placed=False/InsufficientCapacity", "Ready=False/insufficient_capacity", "state pending"},
			message: "Resources not ready: scalinggroup/g-work: desired=2, ready=0",
		},
		"a level is gone and the pods run on": {
			change: func(o *observed) { o.clusterTopology.Spec.Levels = o.clusterTopology.Spec.Levels[:1] },
			want:   []string{"TopologyLevelsAvailable=False/TopologyLevelsUnavailable", placed, ready, "state successful"}, message: "All resources are ready",
		},
		"the topology is gone and the pods run on": {
			change: func(o *observed) { o.clusterTopology = nil },
			want:   []string{"TopologyLevelsAvailable=False/TopologyDefinitionNotFound", placed, ready, "state successful"}, message: "All resources are ready",
		},
		"the topology is being deleted": {
			change: func(o *observed) { o.clusterTopology.DeletionTimestamp = ptr.To(metav1.Now()) },
			want:   []string{"TopologyLevelsAvailable=False/TopologyDefinitionNotFound", placed, ready, "state successful"}, message: "All resources are ready",
		},
		"invalid": {
			problem: &problem{nvidiav1beta1.ReasonInvalid, "bad"},
			want:    []string{"Valid=False/Invalid", levels, placed, "Ready=False/failed_to_reconcile_the_resources", "state failed"}, message: "bad",
		},
		"a level that never was": {
			change:  func(o *observed) { o.groups = nil; o.dgd.Spec.TopologyConstraint.PackDomain = "moon" },
			problem: &problem{nvidiav1beta1.ReasonInvalid, "bad"},
			want: []string{"Valid=False/Invalid", "TopologyLevelsAvailable=False/TopologyLevelsUnavailable", "Placed=False/Invalid",
				"Ready=False/failed_to_reconcile_the_resources", "state failed"}, message: "bad",
		},
		"the API server refused a child": {
			failure: errors.New("no quota"),
			want:    []string{levels, placed, "Ready=False/failed_to_reconcile_the_resources", "state failed"}, message: "no quota",
		},
		"the deployment was deleted and created again, and the old one's children are not gone yet": {
			failure: errors.Join(&leftover{"ScalingGroup g-work"}, &leftover{"Service g-work"}),
			want:    []string{levels, placed, "Ready=False/some_resources_are_not_ready", "state pending"},
			message: "Resources not ready: ScalingGroup g-work of an earlier deployment of this name is still being deleted\nService g-work of an earlier deployment of this name is still being deleted",
		},
		"a leftover does not hide a real failure": {
			failure: errors.Join(&leftover{"ScalingGroup g-work"}, errors.New("no quota")),
			want:    []string{levels, placed, "Ready=False/failed_to_reconcile_the_resources", "state failed"},
			message: "ScalingGroup g-work of an earlier deployment of this name is still being deleted\nno quota",
		},
		"the operator has just started: what was said of the placement stays": {
			change: func(o *observed) { o.judged = false },
			want:   []string{levels, ready, "state successful"}, message: "All resources are ready",
		},
		"the operator has just started: so does why the deployment is not ready": {
			change: func(o *observed) {
				o.judged = false
				o.dgd.Status.Conditions = []metav1.Condition{{Type: nvidiav1beta1.ConditionPlaced, Status: metav1.ConditionFalse, Reason: "InsufficientCapacity"}}
				status := &o.groups["work"].Status
				status.ScheduledReplicas, status.ReadyReplicas, status.AvailableReplicas = 1, 1, 1
			},
			want:    []string{levels, "Placed=False/InsufficientCapacity", "Ready=False/insufficient_capacity", "state pending"},
			message: "Resources not ready: scalinggroup/g-work: desired=2, ready=1",
		},
		"the operator has just started, and does not see the scaling group yet": {
			change: func(o *observed) { o.judged, o.groups = false, nil }, behind: true,
			want:    []string{levels, "Ready=False/some_resources_are_not_ready", "state pending"},
			message: "Resources not ready: scalinggroup for component work: not created yet",
		},
		"scaling groups are still being created": {
			change: func(o *observed) { o.result = gang.Result{Creating: true} },
			want:   []string{levels, "Placed=False/Creating", ready, "state successful"}, message: "All resources are ready",
		},
		"no constraint, no topology condition": {
			change: func(o *observed) {
				o.dgd.Spec.TopologyConstraint, o.groups["work"].Spec.Topology, o.clusterTopology = nil, nil, nil
				o.result = gang.Result{}
			},
			want: []string{placed, ready, "state successful"}, message: "All resources are ready",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			o := fine()
			if c.change != nil {
				c.change(&o)
				o.stated = constraint.StatementOf(o.dgd)
			}
			wanted := resolved
			if c.problem != nil {
				wanted = nil
			}
			got := statusOf(o, wanted, c.problem, c.failure)
			var lines []string
			message := ""
			for _, cond := range got.Conditions {
				if cond.Type == nvidiav1beta1.ConditionProviderReady {
					continue // TestProviderCondition
				}
				lines = append(lines, fmt.Sprintf("%s=%s/%s", cond.Type, cond.Status, cond.Reason))
				if cond.Type == nvidiav1beta1.ConditionReady {
					message = cond.Message
				}
			}
			lines = append(lines, "state "+string(got.State))
			if diff := cmp.Diff(c.want, lines); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
			if message != c.message {
				t.Errorf("Ready says %q, want %q", message, c.message)
			}
			if advanced := got.ObservedGeneration == 3; advanced != (c.problem == nil && c.failure == nil && !c.behind) {
				t.Errorf("observedGeneration = %d; it follows the spec only when that has reached the scaling groups and was counted there", got.ObservedGeneration)
			}
		})
	}
}

// TestPlacementDomain: the domain is that in which all replicas are by the labels of their nodes, and otherwise the one that later pods go to.
func TestPlacementDomain(t *testing.T) {
	for name, tc := range map[string]struct {
		shared   topology.Path
		unjudged bool
		want     string
	}{
		"all in one":            {topology.Path{"a"}, false, "a"},
		"all in another":        {topology.Path{"b"}, false, "b"},
		"in several":            {nil, false, "a"},
		"before the first look": {nil, true, "former"},
	} {
		t.Run(name, func(t *testing.T) {
			o := fine()
			o.dgd.Status.Placement = &nvidiav1beta1.PlacementStatus{Domain: "former"}
			o.dgd.Status.Components = map[string]nvidiav1beta1.ComponentStatus{"work": {Placements: []nvidiav1beta1.ReplicaPlacement{{Domain: "former/r"}}}}
			o.result.Places.Domain = tc.shared
			if o.judged = !tc.unjudged; tc.unjudged {
				o.result = gang.Result{}
			}
			got := statusOf(o, resolved, nil, nil)
			if got.Placement.Domain != tc.want {
				t.Errorf("domain %q, want %q", got.Placement.Domain, tc.want)
			}
			first := "a/r1"
			if tc.unjudged {
				first = "former/r"
			}
			if p := got.Components["work"].Placements; len(p) == 0 || p[0].Domain != first {
				t.Errorf("places %v, want the first one in %s", p, first)
			}
		})
	}
}

// TestTransferIsReported: the status has the shares of both roles with a partner, and under a required policy Placed names the replicas without
// one. Until the scheduler has looked at the graph after a start, the shares stay.
func TestTransferIsReported(t *testing.T) {
	const alone = "all 2 packed replicas are placed in a; 1 decode replica in a/r2 has no prefill in its rack, which kvTransferPolicy requires"
	for name, tc := range map[string]struct {
		required, unjudged bool
		decode, prefill    int32
		placed             string
	}{
		"preferred":     {decode: 50, prefill: 100, placed: "all 2 packed replicas are placed in a"},
		"required":      {required: true, decode: 50, prefill: 100, placed: alone},
		"after a start": {required: true, unjudged: true, decode: 7, prefill: 8, placed: "former"},
	} {
		t.Run(name, func(t *testing.T) {
			o := fine()
			o.judged = !tc.unjudged
			o.dgd.Status.Placement = &nvidiav1beta1.PlacementStatus{DecodePaired: ptr.To[int32](7), PrefillPaired: ptr.To[int32](8)}
			o.dgd.Status.Conditions = []metav1.Condition{{Type: nvidiav1beta1.ConditionPlaced, Status: metav1.ConditionTrue, Message: "former"}}
			policy := o.groups["work"].Spec.Topology
			policy.KVTransferDomain, policy.KVTransferRequired = "rack", tc.required
			o.result.Transfer = gang.NewTransfer(policy, []gang.Transferring{
				{Role: placement.Decode, Domain: []string{"a", "r1"}}, {Role: placement.Decode, Domain: []string{"a", "r2"}},
				{Role: placement.Prefill, Domain: []string{"a", "r1"}},
			})
			got := statusOf(o, resolved, nil, nil)
			if p := got.Placement; ptr.Deref(p.DecodePaired, -1) != tc.decode || ptr.Deref(p.PrefillPaired, -1) != tc.prefill {
				t.Errorf("%d %% of decode and %d %% of prefill, want %d and %d", ptr.Deref(p.DecodePaired, -1), ptr.Deref(p.PrefillPaired, -1),
					tc.decode, tc.prefill)
			}
			if placed := meta.FindStatusCondition(got.Conditions, nvidiav1beta1.ConditionPlaced); placed == nil || placed.Message != tc.placed {
				t.Errorf("Placed is %+v, want %q", placed, tc.placed)
			}
		})
	}
}
