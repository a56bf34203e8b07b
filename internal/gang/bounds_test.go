// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"math"
	"testing"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
)

// A plan reckons with so many pods that are still to be made and no more, whatever a stored object asks for; all replicas count as wanted.
func TestLookAheadIsBounded(t *testing.T) {
	for name, c := range map[string]struct {
		replicas, size         int32
		made                   int32
		wantReplicas, wantPods int
		wantWanted             int
	}{
		"few":                       {replicas: 3, size: 2, made: 1, wantReplicas: 3, wantPods: 6, wantWanted: 3},
		"a million replicas":        {replicas: 1_000_000, size: 1, made: 2, wantReplicas: 2 + lookAhead, wantPods: 2 + lookAhead, wantWanted: 1_000_000},
		"all replicas there may be": {replicas: math.MaxInt32, size: 4096, made: 1, wantReplicas: 2, wantPods: 1 + lookAhead, wantWanted: math.MaxInt32},
		"all nodes there may be":    {replicas: 1, size: math.MaxInt32, wantReplicas: 1, wantPods: 0, wantWanted: 1},
		"all of both":               {replicas: math.MaxInt32, size: math.MaxInt32, wantReplicas: 1, wantPods: 0, wantWanted: math.MaxInt32},
	} {
		t.Run(name, func(t *testing.T) {
			sg := newGroup("work", c.replicas, c.size, frozen("zone", "rack"))
			o := Observation{DGD: &nvidiav1beta1.DynamoGraphDeployment{}, Groups: []*trellisv1alpha1.ScalingGroup{sg}, ClusterTopology: hall}
			for ordinal := range c.made {
				o.Pods = append(o.Pods, newPod(sg, ordinal, 0))
			}
			r := NewRequest(o)
			waiting, pods := r.Graph.Components[0].Waiting, 0
			for _, replica := range waiting {
				pods += len(replica.Pods)
			}
			if len(waiting) != c.wantReplicas || pods != c.wantPods || r.Wanted != c.wantWanted || len(r.surplus) > 0 {
				t.Errorf("%d replicas wait with %d pods, %d are wanted, %d surplus; want %d with %d, %d", len(waiting), pods, r.Wanted, len(r.surplus), c.wantReplicas, c.wantPods, c.wantWanted)
			}
		})
	}
}
