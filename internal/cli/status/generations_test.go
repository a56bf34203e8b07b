// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
	if diff := cmp.Diff([]GenerationCount{{"bbbbbbbb", 1}, {"aaaaaaaa", 1}}, r.Components[0].Generations); diff != "" {
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
