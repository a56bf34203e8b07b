// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package gates

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/render"
)

// A pod that is created in its place is what one becomes that is created gated and released to the same place.
func TestOpenIsWhatAReleaseComesTo(t *testing.T) {
	pins := map[string]gang.Pin{
		"by labels":   {Gang: "g", Labels: map[string]string{"zone": "a", "rack": "a1"}},
		"to its host": {Gang: "g", Labels: map[string]string{"zone": "a"}, Node: "n"},
		"of a placer": {Gang: "g", PodLabels: map[string]string{"l": "1"}, PodAnnotations: map[string]string{"a": "2"}},
	}
	pods := map[string]*corev1.Pod{
		"plain": {}, "with its own": {
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"x": "y"}, Annotations: map[string]string{render.AnnotationLevels: `{"rack":"rack"}`}},
			Spec: corev1.PodSpec{
				NodeSelector: map[string]string{"pool": "p"}, Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
					RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
						{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "k", Operator: corev1.NodeSelectorOpExists}}},
					}},
				}},
			},
		},
	}
	for pin := range pins {
		for kind := range pods {
			t.Run(pin+", "+kind, func(t *testing.T) {
				gated := pods[kind].DeepCopy()
				gated.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: render.PlacementGate}, {Name: "other"}}
				patch, err := Patch(gated, pins[pin])
				if err != nil {
					t.Fatal(err)
				}
				released := patched(t, gated, patch)
				Open(gated, pins[pin])
				if diff := cmp.Diff(released, gated); diff != "" {
					t.Errorf("created in place (-released +created):\n%s", diff)
				}
			})
		}
	}
}

func patched(t *testing.T, pod *corev1.Pod, patch []byte) *corev1.Pod {
	t.Helper()
	before, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	after, err := strategicpatch.StrategicMergePatch(before, patch, corev1.Pod{})
	if err != nil {
		t.Fatal(err)
	}
	out := &corev1.Pod{}
	if err := json.Unmarshal(after, out); err != nil {
		t.Fatal(err)
	}
	return out
}
