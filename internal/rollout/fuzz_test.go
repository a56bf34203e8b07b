// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"testing"

	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
)

// FuzzStrategy reads any annotations. What is not refused is a strategy by which an update moves, with any number of replicas.
func FuzzStrategy(f *testing.F) {
	for _, seed := range []string{"", "0", "1", "25%", "0%", "1000%", "-1", "2147483648", " 1", "1e3", "+5", "٣"} {
		f.Add("RollingUpdate", seed, "0", int32(4), true)
		f.Add("Recreate", "0%", seed, int32(65536), false)
	}
	f.Fuzz(func(t *testing.T, strategy, surge, unavailable string, replicas int32, packed bool) {
		annotations := map[string]string{}
		for key, value := range map[string]string{AnnotationStrategy: strategy, AnnotationMaxSurge: surge, AnnotationMaxUnavailable: unavailable} {
			if value != "" {
				annotations[key] = value
			}
		}
		s, problems := StrategyOf(annotations, packed)
		if len(problems) > 0 {
			return
		}
		sg := &trellisv1alpha1.ScalingGroup{Spec: trellisv1alpha1.ScalingGroupSpec{Replicas: max(replicas, 0) % 65537, Rollout: &s}}
		if g := For(sg); !g.Recreate && (g.MaxUnavailable < 0 || g.MaxSurge < 0 || g.MaxUnavailable+g.MaxSurge == 0) {
			t.Fatalf("%v: no replica could be replaced, or fewer than none: %+v", annotations, g)
		}
	})
}
