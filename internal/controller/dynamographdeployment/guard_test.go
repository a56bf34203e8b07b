// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package dynamographdeployment

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/validation"
)

// TestGuardReportsEverything: what is wrong with a new deployment and what its topology lacks are reported together. Its topology does not
// count once it has groups.
func TestGuardReportsEverything(t *testing.T) {
	hall := &grovev1alpha1.ClusterTopology{}
	hall.Name, hall.Spec.Levels = "hall", []grovev1alpha1.TopologyLevel{{Domain: "zone", Key: "topology.kubernetes.io/zone"}}
	dgd := &nvidiav1beta1.DynamoGraphDeployment{}
	dgd.Name = "llm"
	dgd.Spec.TopologyConstraint = &nvidiav1beta1.SpecTopologyConstraint{ClusterTopologyName: "hall", PackDomain: "row"}
	dgd.Spec.Components = []nvidiav1beta1.ComponentSpec{{Name: "Worker", Replicas: ptr.To(int32(-1))}}
	const replicas, level = "spec.components[0].replicas", "spec.topologyConstraint.packDomain"
	for name, tc := range map[string]struct {
		groups map[string]*trellisv1alpha1.ScalingGroup
		want   []string
	}{
		"new":         {nil, []string{replicas, level}},
		"with groups": {map[string]*trellisv1alpha1.ScalingGroup{"Worker": {}}, []string{replicas}},
	} {
		var paths []string
		for _, err := range guard(observed{dgd: dgd, clusterTopology: hall, groups: tc.groups}, validation.FromHub(dgd)) {
			paths = append(paths, err.Field.String())
		}
		if diff := cmp.Diff(tc.want, paths); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
