// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package dynamographdeployment

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/trellis-k8s/trellis/internal/render"
)

// A pod outside the managed namespaces has no label of a scaling group in the cache. Its deployment is not asked for.
func TestMovedElsewhere(t *testing.T) {
	for name, tc := range map[string]struct {
		labels map[string]string
		want   bool
	}{
		"of a provider":            {map[string]string{render.LabelGraph: "g", render.LabelScalingGroup: "s"}, true},
		"of a namespace elsewhere": {map[string]string{render.LabelGraph: "g"}, false},
		"of others":                {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: tc.labels}, Spec: corev1.PodSpec{NodeName: "n"}}
			moved := movedElsewhere()
			got := []bool{
				moved.Create(event.CreateEvent{Object: pod}), moved.Delete(event.DeleteEvent{Object: pod}),
				moved.Update(event.UpdateEvent{ObjectOld: &corev1.Pod{}, ObjectNew: pod}),
			}
			for _, passes := range got {
				if passes != tc.want {
					t.Errorf("created, deleted, updated: %v, want %v", got, tc.want)
				}
			}
		})
	}
}
