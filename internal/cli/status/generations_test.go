// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/render"
)

// TestBothGenerations: while workers are of two generations, the report has a line with both, which goes when one of them is gone.
func TestBothGenerations(t *testing.T) {
	s := observed(t, llm(allReady), "Decode 0 0 ready", "Decode 0 1 ready", "Decode 1 0 ready", "Decode 1 1 starting", "Decode 2 0 leaving", "Frontend 0 0 ready")
	start := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	for i, generation := range []string{"bbbbbbbb", "bbbbbbbb", "aaaaaaaa", "aaaaaaaa", "cccccccc"} {
		s.Pods[i].Labels[render.LabelWorkerHash] = generation
		s.Pods[i].CreationTimestamp = metav1.NewTime(start.Add(time.Duration(i) * time.Minute))
	}
	const line = "generations of Decode: 1 replica of bbbbbbbb, 1 replica of aaaaaaaa"
	r := Build(s)
	if diff := cmp.Diff([]GenerationCount{{Name: "bbbbbbbb", Replicas: 1}, {Name: "aaaaaaaa", Replicas: 1}}, r.Components[0].Generations); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if !slices.Contains(r.notes(), line) || !slices.Contains(r.Changes(nil), line) {
		t.Errorf("%q is not in %q", line, r.notes())
	}
	s.Pods = s.Pods[2:]
	if r := Build(s); r.Components[0].Generations != nil || slices.Contains(r.notes(), line) {
		t.Errorf("one generation alone: %+v", r.Components[0].Generations)
	}
}

// TestStuckUpdate: where the pods of a new generation do not start, or a deadline is over, the report names the images of both generations,
// and the command that returns to the former one. Elsewhere it names no such command.
func TestStuckUpdate(t *testing.T) {
	update := func(state, reason string) Observed {
		s := observed(t, llm(allReady), "Decode 0 0 ready", "Decode 0 1 ready", "Decode 1 0 "+state, "Decode 1 1 "+state, "Frontend 0 0 ready")
		for i, generation := range []string{"aaaaaaaa", "aaaaaaaa", "bbbbbbbb", "bbbbbbbb"} {
			s.Pods[i].Labels[render.LabelWorkerHash] = generation
			s.Pods[i].CreationTimestamp = metav1.NewTime(time.Date(2026, 5, 1, 12, i, 0, 0, time.UTC))
			s.Pods[i].Spec.Containers = []corev1.Container{
				{Name: "main", Image: map[string]string{"aaaaaaaa": "runtime:1.5.0", "bbbbbbbb": "runtime:1.6.0-typo"}[generation]}, {Name: "log", Image: "log:1"},
			}
		}
		s.Graph.Status.Conditions = append(s.Graph.Status.Conditions, metav1.Condition{
			Type: nvidiav1beta1.ConditionRolledOut, Status: metav1.ConditionFalse, Reason: reason, Message: "m",
		})
		return s
	}
	const how = "the update is stuck: kubectl trellis rollout abort dgd/llm -n team-a returns to the generation before"
	unhealthy := func(reason string) []trellisv1alpha1.ScalingGroup {
		return []trellisv1alpha1.ScalingGroup{group("Decode", metav1.ConditionFalse, reason, "m")}
	}
	for name, tc := range map[string]struct {
		state, reason string
		groups        []trellisv1alpha1.ScalingGroup
		stuck         bool
	}{
		"does not start":      {"starting", nvidiav1beta1.ReasonRollingOut, unhealthy(trellisv1alpha1.ReasonPodsNotStarting), true},
		"fails":               {"starting", nvidiav1beta1.ReasonRollingOut, unhealthy(trellisv1alpha1.ReasonReplicaFailed), true},
		"fails its probe":     {"starting", nvidiav1beta1.ReasonRollingOut, unhealthy(trellisv1alpha1.ReasonPodsNotReady), true},
		"is overdue":          {"starting", nvidiav1beta1.ReasonProgressDeadlineExceeded, nil, true},
		"waits for capacity":  {"gated", nvidiav1beta1.ReasonRolloutWaitsForCapacity, nil, true},
		"starts":              {"starting", nvidiav1beta1.ReasonRollingOut, nil, false},
		"waits for pods' end": {"starting", nvidiav1beta1.ReasonRollingOut, unhealthy(trellisv1alpha1.ReasonPodsNotEnding), false},
		"is aborted already":  {"starting", nvidiav1beta1.ReasonRolledBack, unhealthy(trellisv1alpha1.ReasonPodsNotStarting), false},
	} {
		s := update(tc.state, tc.reason)
		s.Groups = tc.groups
		r := Build(s)
		if slices.Contains(r.notes(), how) != tc.stuck {
			t.Errorf("%s: the notes are %q", name, r.notes())
		}
		const images = "generations of Decode: 1 replica of aaaaaaaa (runtime:1.5.0), 1 replica of bbbbbbbb (runtime:1.6.0-typo)"
		if !slices.Contains(r.notes(), images) {
			t.Errorf("%s: no images in %q", name, r.notes())
		}
	}
	s := update("starting", nvidiav1beta1.ReasonRollingOut)
	s.Groups = unhealthy(trellisv1alpha1.ReasonPodsNotStarting)
	s.Pods = s.Pods[2:]
	if r := Build(s); slices.Contains(r.notes(), how) {
		t.Errorf("one generation alone: %q", r.notes())
	}
}
