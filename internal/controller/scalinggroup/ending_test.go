// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalinggroup

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/rollout"
)

// leavingAt is a pod on a node whose grace period ends at noon.
func leavingAt(node string) state {
	return func(pod *corev1.Pod) {
		running(pod)
		pod.Spec.NodeName = node
		pod.DeletionTimestamp = &metav1.Time{Time: noon}
	}
}

// A pod that was deleted and does not end is named. Where its node is not ready, its replica is lost when nothing holds its capacity any more; else
// its end is waited for, however long that takes.
func TestPodsThatDoNotEnd(t *testing.T) {
	const named, lost = gang.EndsWithin, 2 * time.Minute
	for name, tc := range map[string]struct {
		states []state
		after  time.Duration
		want   rollout.State
		said   string
		again  time.Duration
	}{
		"it has time":                       {[]state{leavingAt("down")}, named - time.Second, rollout.Leaving, "", time.Second},
		"it has had time":                   {[]state{leavingAt("down")}, named, rollout.Leaving, "node down, which is not ready,", lost - named},
		"its capacity is held":              {[]state{leavingAt("down")}, lost - time.Second, rollout.Leaving, "node down", time.Second},
		"nothing is held":                   {[]state{leavingAt("down")}, lost, rollout.Lost, "node down", 0},
		"its kubelet is alive":              {[]state{leavingAt("up")}, time.Hour, rollout.Leaving, "node up has been terminating", 0},
		"its node has no object":            {[]state{leavingAt("gone")}, time.Hour, rollout.Lost, "node gone, which is not ready", 0},
		"it was never bound":                {[]state{leavingAt("")}, time.Hour, rollout.Leaving, "pod g-worker-0 has been", 0},
		"one of two is on the dead node":    {[]state{leavingAt("up"), leavingAt("down")}, lost, rollout.Lost, "2 pods", 0},
		"a sibling has still to be deleted": {[]state{running, leavingAt("down")}, lost, rollout.Broken, "node down", 0},
		"it is not deleted, on a dead node": {[]state{func(pod *corev1.Pod) { running(pod); pod.Spec.NodeName = "down" }}, lost, rollout.Available, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			notReady := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "down"}}
			notReady.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}
			r := &Reconciler{HoldFor: lost, Client: fake.NewClientBuilder().WithObjects(notReady, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "up"}}).Build()}
			r.refusals.now = func() time.Time { return noon.Add(tc.after) }
			sg := group(1, int32(len(tc.states)))
			replicas := replicasOf(sg, podsOf(sg, 0, tc.states...), func(*corev1.Pod) bool { return false })
			p := &pass{Reconciler: r, observed: observed{sg: sg, replicas: replicas}}
			if p.lookForEnds(t.Context()); p.ends != tc.again {
				t.Errorf("it looks again after %s, want %s", p.ends, tc.again)
			}
			if got, _ := replicas[0].state(); got != tc.want {
				t.Errorf("state %d, want %d", got, tc.want)
			}
			health := healthCondition(sg, replicas, backOff{now: noon})
			switch {
			case tc.said == "" && health != nil:
				t.Errorf("said: %s", health.Message)
			case tc.said == "2 pods":
				if health == nil || strings.Count(health.Message, "has been terminating") != 2 {
					t.Errorf("said: %+v", health)
				}
			case tc.said != "" && (health == nil || health.Reason != "PodsNotEnding" || !strings.Contains(health.Message, tc.said)):
				t.Errorf("said: %+v, want %q", health, tc.said)
			}
		})
	}
}

// A lost replica is made under a free ordinal, once; when its pod has ended nothing more is made or taken.
func TestALostReplicaIsMadeUnderAnotherOrdinal(t *testing.T) {
	sg := group(2, 1)
	pods := append(podsOf(sg, 0, running), podsOf(sg, 1, leavingAt("down"))...)
	planned := func(lost bool, more ...*corev1.Pod) rollout.Plan {
		replicas := replicasOf(sg, append(more, pods...), func(*corev1.Pod) bool { return false })
		replicas[1].lostNode = lost
		return plan(sg, replicas)
	}
	if p := planned(false); len(p.Make)+len(p.Remove) > 0 {
		t.Errorf("while it may still end: %+v", p)
	}
	if p := planned(true); len(p.Make) != 1 || p.Make[0] != 2 || len(p.Remove) > 0 {
		t.Errorf("once it is lost: %+v", p)
	}
	successor := podsOf(sg, 2, running)
	for _, lost := range []bool{true, false} {
		if p := planned(lost, successor...); len(p.Make)+len(p.Remove) > 0 {
			t.Errorf("beside its successor, lost %v: %+v", lost, p)
		}
	}
}
