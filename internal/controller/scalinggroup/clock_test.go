// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalinggroup

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/rollout"
)

// A stored time outlives the clock that it was taken from: a leader with another clock, or a clock that is set, never makes a replica wait for
// longer than the longest delay.
func TestDelaysSurviveAnotherClock(t *testing.T) {
	stored := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for name, tc := range map[string]struct {
		ahead time.Duration
		waits bool
		again time.Duration
	}{
		"the same clock":              {-2 * time.Second, true, 2 * time.Second},
		"a little behind":             {-4 * time.Minute, true, 4 * time.Minute},
		"as far as the longest delay": {-lastRecreate, true, lastRecreate},
		"an hour behind":              {-time.Hour, false, 0},
		"a year behind":               {-365 * 24 * time.Hour, false, 0},
		"at the time":                 {0, false, 0},
		"an hour ahead":               {time.Hour, false, 0},
	} {
		sg := group(1, 1)
		sg.Status.FailedReplicas = []trellisv1alpha1.FailedReplica{{Replica: 0, Failures: 3, Revision: sg.Spec.Revision, RetryAt: metav1.NewTime(stored)}}
		b := backOffOf(sg, map[int32]*replica{0: {}}, stored.Add(tc.ahead))
		if made := len(b.without(rollout.Plan{Make: []int{0}}).Make); (made == 0) != tc.waits || b.again != tc.again {
			t.Errorf("%s: %d replicas are made, the next look is in %s; want that it waits: %v, %s", name, made, b.again, tc.waits, tc.again)
		}
	}
}

// Pods that fail after a clock was set back are counted, and delayed: not by the API server's clock alone, nor when the operator's follows it.
func TestFailuresAreCountedAfterClocksAreSetBack(t *testing.T) {
	for name, operator := range map[string]time.Duration{"of the API server": 0, "of both": -time.Hour} {
		sg, now := group(1, 2), noon
		fail := func(created time.Time) backOff {
			pods := podsOf(sg, 0, failed, running)
			for _, pod := range pods {
				pod.CreationTimestamp = metav1.NewTime(created)
			}
			b := backOffOf(sg, replicasOf(sg, pods, func(*corev1.Pod) bool { return false }), now)
			sg.Status.FailedReplicas = b.failed
			return b
		}
		fail(noon.Add(-time.Second))
		now = now.Add(operator)
		for i := range 3 {
			now = now.Add(time.Minute)
			b := fail(noon.Add(-time.Hour).Add(time.Duration(i) * time.Minute))
			if f := b.failed[0]; f.Failures != int32(2+i) || !b.isNew || !b.waits(f) {
				t.Errorf("the clock %s is set back, failure %d: %+v, new %v, waits %v", name, 2+i, f, b.isNew, b.waits(f))
			}
			if again := fail(noon.Add(-time.Hour).Add(time.Duration(i) * time.Minute)); again.isNew {
				t.Errorf("the clock %s is set back, failure %d is counted twice", name, 2+i)
			}
		}
	}
}
