// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package dynamographdeployment

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/rollout"
)

// TestProgressDeadline: an update that does not come further in any component is reported once, and while it is paused it has all the time it needs.
func TestProgressDeadline(t *testing.T) {
	start := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	progress := func(after time.Duration, paused bool) *trellisv1alpha1.RolloutProgress {
		return &trellisv1alpha1.RolloutProgress{Time: metav1.NewTime(start.Add(after)), Paused: paused}
	}
	cases := map[string]struct {
		deadline        string
		prefill, decode *trellisv1alpha1.RolloutProgress
		after           time.Duration
		overdue         bool
		due             time.Duration
	}{
		"no deadline":             {"", progress(0, false), nil, time.Hour, false, 0},
		"nothing is rolled out":   {"10m", nil, nil, time.Hour, false, 0},
		"in time":                 {"10m", progress(0, false), nil, 4 * time.Minute, false, 6 * time.Minute},
		"the other comes further": {"10m", progress(0, false), progress(5*time.Minute, false), 11 * time.Minute, false, 4 * time.Minute},
		"overdue":                 {"10m", progress(0, false), progress(time.Minute, false), 11 * time.Minute, true, 0},
		"paused":                  {"10m", progress(0, true), progress(0, false), time.Hour, false, 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			o := disaggregated(t)
			if c.deadline != "" {
				annotated(o, rollout.AnnotationProgressDeadline, c.deadline)
			}
			o.groups["prefill"].Status.Progress, o.groups["decode"].Status.Progress = c.prefill, c.decode
			now := start.Add(c.after)
			if due := progressDueIn(o, now); overdue(o, now) != c.overdue || due != c.due {
				t.Errorf("overdue %v, due in %s; want %v, %s", overdue(o, now), due, c.overdue, c.due)
			}
			rolledOut(o.groups["decode"], false, trellisv1alpha1.ReasonRollingOut, start)
			condition := rolloutCondition(o, nil, now)
			if got := condition.reason == nvidiav1beta1.ReasonProgressDeadlineExceeded; got != c.overdue {
				t.Errorf("the reason is %s", condition.reason)
			}
			if c.overdue && !strings.HasPrefix(condition.message, "no further replica has become available since 2026-05-01T12:01:00Z, longer than 10m0s. decode: ") {
				t.Errorf("the message is %s", condition.message)
			}
		})
	}
}

// TestProgressOfFinishedComponents: that a component is done is progress of the update, and what was done before its begin is none.
func TestProgressOfFinishedComponents(t *testing.T) {
	start := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		done    time.Duration
		overdue bool
		due     time.Duration
	}{
		"the other is done":                  {5 * time.Minute, false, 4 * time.Minute},
		"the other was done before":          {-time.Hour, true, 0},
		"the other was done at the deadline": {time.Minute, true, 0},
	} {
		o := disaggregated(t)
		annotated(o, rollout.AnnotationProgressDeadline, "10m")
		o.groups["prefill"].Status.Progress = &trellisv1alpha1.RolloutProgress{Time: metav1.NewTime(start)}
		rolledOut(o.groups["prefill"], false, trellisv1alpha1.ReasonRollingOut, start.Add(6*time.Minute))
		rolledOut(o.groups["decode"], true, trellisv1alpha1.ReasonUpToDate, start.Add(c.done))
		now := start.Add(11 * time.Minute)
		if due := progressDueIn(o, now); overdue(o, now) != c.overdue || due != c.due {
			t.Errorf("%s: overdue %v, due in %s; want %v, %s", name, overdue(o, now), due, c.overdue, c.due)
		}
		o.groups["prefill"].Status.Progress = nil
		if overdue(o, now) {
			t.Errorf("%s: overdue while nothing is rolled out", name)
		}
	}
}
