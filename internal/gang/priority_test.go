// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestGraphPriority(t *testing.T) {
	never := corev1.PreemptNever
	for name, tc := range map[string]struct {
		priorities []int32
		policy     *corev1.PreemptionPolicy
		want       int32
		preempts   bool
	}{
		"all the same": {[]int32{7, 7}, nil, 7, true},
		"the lowest":   {[]int32{7, -3}, nil, -3, true},
		"never":        {[]int32{7, 7}, &never, 7, false},
	} {
		t.Run(name, func(t *testing.T) {
			o := asking(2)
			for i, pod := range o.Pods {
				pod.Spec.Priority, pod.Spec.PreemptionPolicy = &tc.priorities[i], tc.policy
			}
			if r := NewRequest(o); r.Graph.Priority != tc.want || r.Graph.Preempts != tc.preempts {
				t.Errorf("priority %d, preempts %v; want %d, %v", r.Graph.Priority, r.Graph.Preempts, tc.want, tc.preempts)
			}
		})
	}
}
