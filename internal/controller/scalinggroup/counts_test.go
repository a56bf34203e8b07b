// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalinggroup

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/render"
	"github.com/trellis-k8s/trellis/internal/rollout"
)

func TestStatus(t *testing.T) {
	sg := group(4, 2)
	sg.Generation = 7
	sg.Spec.Topology.Levels = []trellisv1alpha1.ResolvedLevel{{Domain: "zone", Key: "zone"}, {Domain: "rack", Key: "rack"}}
	sg.Status.Placements = []trellisv1alpha1.ReplicaPlacement{{Replica: 2, Domain: "a/r9", Bound: true}} //nolint:staticcheck // as an earlier release did
	sg.Status.Conditions = []metav1.Condition{{Type: trellisv1alpha1.ConditionPlacementsComplete, Status: metav1.ConditionFalse}}
	on := func(node string) state {
		return func(pod *corev1.Pod) { running(pod); pod.Spec.NodeName = node }
	}
	pinned := func(pod *corev1.Pod) {
		pod.Spec.SchedulingGates = nil
		pod.Spec.NodeSelector = map[string]string{"zone": "a", "rack": "r2"}
	}
	var pods []*corev1.Pod
	pods = append(pods, podsOf(sg, 0, on("n1"), on("n2"))...)
	pods = append(pods, podsOf(sg, 1, pinned, pinned)...)
	pods = append(pods, podsOf(sg, 2, gated, gated)...)
	pods = append(pods, podsOf(sg, 3, on("n1"), nil)...) // a member is lost
	got := statusOf(sg, replicasOf(sg, pods, func(*corev1.Pod) bool { return false }), rollout.Plan{}, nil)
	if c := meta.FindStatusCondition(got.Conditions, trellisv1alpha1.ConditionPlacementsComplete); c != nil {
		t.Errorf("the condition of an earlier release stays: %+v", c)
	}
	got.Conditions = nil
	want := trellisv1alpha1.ScalingGroupStatus{
		ObservedGeneration: 7, OutdatedReplicas: 0, Revision: "new", Replicas: 4, UpdatedReplicas: 3, ScheduledReplicas: 1, ReadyReplicas: 1, AvailableReplicas: 1,
		UpdatedAvailableReplicas: 1,
		Pods:                     7, Selector: render.LabelGraph + "=g," + render.LabelScalingGroup + "=g-worker",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
}

// TestCountsOfGenerations: what a generation of workers that replaces another one goes by.
func TestCountsOfGenerations(t *testing.T) {
	sg := group(4, 2)
	var pods []*corev1.Pod
	pods = append(pods, podsOf(sg, 0, old(running), old(running))...)
	pods = append(pods, podsOf(sg, 1, old(terminating), old(running))...)
	pods = append(pods, podsOf(sg, 2, old(terminating), old(terminating))...)
	pods = append(pods, podsOf(sg, 3, running, running)...)
	pods = append(pods, podsOf(sg, 4, running, unready)...)
	pods = append(pods, podsOf(sg, 5, terminating, terminating)...)
	got := statusOf(sg, replicasOf(sg, pods, func(*corev1.Pod) bool { return false }), rollout.Plan{}, nil)
	counts := [4]int32{got.OutdatedReplicas, got.TerminatingReplicas, got.AvailableReplicas, got.UpdatedAvailableReplicas}
	if want := [4]int32{2, 1, 2, 1}; counts != want {
		t.Errorf("outdated, outdated and terminating, available, updated and available: %v, want %v", counts, want)
	}
}

// TestRolledOut follows the condition through an update, a loss and a restart.
func TestRolledOut(t *testing.T) {
	sg := group(2, 1)
	var scenario []string
	look := func(title string, states ...state) {
		var pods []*corev1.Pod
		for ordinal, s := range states {
			pods = append(pods, podsOf(sg, int32(ordinal), s)...)
		}
		replicas := replicasOf(sg, pods, func(*corev1.Pod) bool { return false })
		sg.Status = statusOf(sg, replicas, plan(sg, replicas), nil)
		c := meta.FindStatusCondition(sg.Status.Conditions, trellisv1alpha1.ConditionRolledOut)
		scenario = append(scenario, fmt.Sprintf("%s: %s %s; %s", title, sg.Status.Revision, c.Reason, c.Message))
	}
	look("created", gated, gated)
	look("one is lost", running, nil)
	look("runs", running, running)
	sg.Spec.Revision = "newer"
	look("edited", old(running), old(running))
	look("one is gone", old(running))
	look("its successor waits", old(running), gated)
	look("its successor starts", old(running), unready)
	look("half way", old(running), running)
	look("the last one starts", unready, running)
	look("done", running, running)
	look("one is lost again", running, nil)
	restarted(sg, true)
	look("everything stops", before(running), before(running))
	look("nothing is left")
	sg.Spec.Restart.Stop = false
	look("it goes on")
	look("done", running, running)
	sg.Spec.Replicas, sg.Spec.Revision = 0, "newest"
	look("at zero")
	want := []string{
		"created: new UpToDate; no replica is of an older revision",
		"one is lost: new UpToDate; no replica is of an older revision",
		"runs: new UpToDate; no replica is of an older revision",
		"edited: new RollingOut; 0 of 2 replicas serve the current revision, 2 serve in all; waits for replica 1 to stop",
		"one is gone: new RollingOut; 0 of 2 replicas serve the current revision, 1 serve in all; is being made",
		"its successor waits: new RolloutWaitsForCapacity; 0 of 2 replicas serve the current revision, 1 serve in all; waits for replica 1 to find capacity",
		"its successor starts: new RollingOut; 0 of 2 replicas serve the current revision, 1 serve in all; waits for replica 1 to become ready; pod g-worker-1 is not Ready",
		"half way: new RollingOut; 1 of 2 replicas serve the current revision, 2 serve in all; waits for replica 0 to stop",
		"the last one starts: new RollingOut; 1 of 2 replicas serve the current revision, 1 serve in all; waits for replica 0 to become ready; pod g-worker-0 is not Ready",
		"done: newer UpToDate; no replica is of an older revision",
		"one is lost again: newer UpToDate; no replica is of an older revision",
		"everything stops: newer RollingOut; 0 of 2 replicas serve the current revision, 2 serve in all; waits for replicas 0, 1 to stop",
		"nothing is left: newer RollingOut; 0 of 2 replicas serve the current revision, 0 serve in all",
		"it goes on: newer RollingOut; 0 of 2 replicas serve the current revision, 0 serve in all; is being made",
		"done: newer UpToDate; no replica is of an older revision",
		"at zero: newest UpToDate; no replica is of an older revision",
	}
	if diff := cmp.Diff(want, scenario); diff != "" {
		t.Errorf("what is reported (-want +got):\n%s", diff)
	}
}
