// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package gang

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/placement"
)

// The pods of a replica that is not whole are deleted, for example those that an operator created before it died. They hold no other
// replica of the graph in their domain: the first replicas wait, and go together. Other replicas of the graph do.
func TestAReplicaThatIsReplacedAnchorsNothing(t *testing.T) {
	front, work := newGroup("front", 1, 2, frozen("zone", "")), newGroup("work", 2, 1, frozen("zone", ""))
	dgd := &nvidiav1beta1.DynamoGraphDeployment{Spec: nvidiav1beta1.DynamoGraphDeploymentSpec{
		Components: []nvidiav1beta1.ComponentSpec{{Name: "front"}, {Name: "work"}},
	}}
	for name, tc := range map[string]struct {
		pods   []*corev1.Pod
		anchor string
		waits  bool
	}{
		"nothing else is placed": {[]*corev1.Pod{newPod(front, 0, 0, "a"), newPod(work, 0, 0)}, "", true},
		"another replica is":     {[]*corev1.Pod{newPod(front, 0, 0, "a"), newPod(work, 0, 0), newPod(work, 1, 0, "b")}, "b", false},
		"it is whole":            {[]*corev1.Pod{newPod(front, 0, 0, "a"), newPod(front, 0, 1, "a"), newPod(work, 0, 0)}, "a", false},
	} {
		r := NewRequest(Observation{DGD: dgd, Groups: []*trellisv1alpha1.ScalingGroup{front, work}, Pods: tc.pods, ClusterTopology: hall})
		if got := r.Graph.Anchor.String(); got != tc.anchor || r.WaitsForCreation(&placement.Result{}) != tc.waits {
			t.Errorf("%s: the graph is in %q, want %q", name, got, tc.anchor)
		}
	}
}
