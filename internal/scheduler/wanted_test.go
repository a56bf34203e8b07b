// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
)

// Two replicas prefer one rack. The second pod is still to be made when the first is looked at, and what admission added to the first is not in
// its template: it goes where there is capacity for both all the same.
func TestPodsStillToBeMadeAreLikeThoseThatAre(t *testing.T) {
	for name, made := range map[string]int32{"one is made": 1, "both are made": 2} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, Options{})
			b.taken("a0")
			levels := frozen("zone", "zone")
			levels.GraphPreferredPackDomain, levels.PreferredPackDomain = "rack", "rack"
			o := asking(1, 1, 0)
			sg := newGroup("work", 2, 1, levels)
			sg.Spec.Roles[0].Template.Spec = withGPU(&corev1.Pod{}).Spec
			o.Groups, o.Pods = []*trellisv1alpha1.ScalingGroup{sg}, nil
			for ordinal := range made {
				pod := newPod(sg, ordinal, 0)
				pod.Spec.Tolerations = []corev1.Toleration{{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}}
				o.Pods = append(o.Pods, pod)
			}
			releases := b.decide(o).releases
			if len(releases) != int(made) {
				t.Fatalf("%d pods released, want %d", len(releases), made)
			}
			for _, r := range releases {
				if got := r.Pin.Labels["r"]; got != "b" {
					t.Errorf("%s goes to rack %s, want b", r.Pod.Name, got)
				}
			}
		})
	}
}
