// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scalinggroup

import (
	"testing"
	"time"

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
