// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
)

// TestTransferWithoutPlacement: a policy that places nothing says why.
func TestTransferWithoutPlacement(t *testing.T) {
	type policy = nvidiav1beta1.KVTransferPolicy
	const routing = "spec.experimental.kvTransferPolicy decides where requests go, and not where replicas go: "
	for name, test := range map[string]struct {
		policy          policy
		unconstrained   bool
		pack, annotated string
		prefill, other  int32
		want            []string
	}{
		"placed":        {policy: policy{ClusterTopologyName: "gb200", Domain: "rack"}, prefill: 1, other: 1},
		"no constraint": {policy: policy{ClusterTopologyName: "gb200", Domain: "rack"}, unconstrained: true, want: []string{routing + "the deployment has no topologyConstraint"}},
		"another topology": {policy: policy{ClusterTopologyName: "h100", Domain: "rack"},
			want: []string{routing + `it names no level of ClusterTopology "gb200", by which the deployment is placed`}},
		"a label key of no level": {policy: policy{LabelKey: "example.com/row", Domain: "row"},
			want: []string{routing + `it names no level of ClusterTopology "gb200", by which the deployment is placed`}},
		"a label key of a level": {policy: policy{LabelKey: "example.com/rack", Domain: "row"}, prefill: 1, other: 1},
		"always met": {policy: policy{ClusterTopologyName: "gb200", Domain: "zone"}, pack: "rack",
			want: []string{`spec.experimental.kvTransferPolicy.domain "zone" has no effect on where replicas go: all pods are in one rack by packDomain`}},
		"always met by annotation": {policy: policy{ClusterTopologyName: "gb200", Domain: "zone"}, annotated: "example.com/rack",
			want: []string{`spec.experimental.kvTransferPolicy.domain "zone" has no effect on where replicas go: all pods are in one rack by ` +
				`the annotation kai.scheduler/topology-required-placement`}},
		"required without prefill": {policy: policy{ClusterTopologyName: "gb200", Domain: "rack", Enforcement: "required"}, other: 1,
			want: []string{"spec.experimental.kvTransferPolicy.enforcement is required, and no prefill replica is wanted: nothing is placed by it, and " +
				"requests find no partner in their domain"}},
		"preferred without prefill": {policy: policy{ClusterTopologyName: "gb200", Domain: "rack", Enforcement: "preferred"}, other: 1},
	} {
		t.Run(name, func(t *testing.T) {
			dgd := &nvidiav1beta1.DynamoGraphDeployment{}
			if test.annotated != "" {
				dgd.Annotations = map[string]string{"kai.scheduler/topology": "gb200", "kai.scheduler/topology-required-placement": test.annotated}
			} else if !test.unconstrained {
				dgd.Spec.TopologyConstraint = &nvidiav1beta1.SpecTopologyConstraint{ClusterTopologyName: "gb200", PackDomain: test.pack}
			}
			dgd.Spec.Experimental = &nvidiav1beta1.GraphExperimental{KVTransferPolicy: &test.policy}
			dgd.Spec.Components = []nvidiav1beta1.ComponentSpec{
				{Name: "prefill", Type: "prefill", Replicas: ptr.To(test.prefill)}, {Name: "decode", Type: "decode", Replicas: ptr.To(test.other)}}
			got := textsIn(transferWithoutPlacement(FromHub(dgd), newTopology()), "v1beta1")
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
