// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package peer_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/engine/grove"
	"github.com/trellis-k8s/trellis/internal/engine/kai"
	"github.com/trellis-k8s/trellis/internal/engine/peer"
	"github.com/trellis-k8s/trellis/internal/engine/peer/peertest"
)

// BenchmarkRender renders a deployment of 25 multinode services, 4 replicas of 8 pods each, into the objects that are sent.
func BenchmarkRender(b *testing.B) {
	dgd := &nvidiav1alpha1.DynamoGraphDeployment{}
	dgd.Name, dgd.Namespace = "large", "team-a"
	dgd.Spec.TopologyConstraint = &nvidiav1alpha1.SpecTopologyConstraint{TopologyProfile: "grove-topology", PackDomain: "zone"}
	dgd.Spec.Services = map[string]*nvidiav1alpha1.ServiceSpec{}
	for i := range 25 {
		dgd.Spec.Services[fmt.Sprintf("Decode%02d", i)] = &nvidiav1alpha1.ServiceSpec{
			ComponentType:      nvidiav1alpha1.ComponentTypeDecode,
			Replicas:           ptr.To[int32](4),
			Multinode:          &nvidiav1alpha1.MultinodeSpec{NodeCount: 8},
			TopologyConstraint: &nvidiav1alpha1.ServiceTopologyConstraint{PackDomain: "rack"},
			ExtraPodSpec:       &nvidiav1alpha1.ExtraPodSpec{MainContainer: &corev1.Container{Command: []string{"python3", "-m", "dynamo.sglang"}}},
		}
	}
	k, g := peertest.KAI(b, dgd), peertest.Grove(b, dgd)
	b.Run("KAI", func(b *testing.B) {
		for b.Loop() {
			for _, pg := range kai.PodGroups(k) {
				send(b, pg)
			}
		}
	})
	b.Run("Grove", func(b *testing.B) {
		for b.Loop() {
			send(b, grove.Render(g, grove.Dialect{Shape: grove.ShapePack}))
		}
	})
	b.Run("LWS", func(b *testing.B) { // 100 sets
		for b.Loop() {
			for _, set := range peertest.Sets(k.Groups, k.Join) {
				send(b, set)
			}
		}
	})
}

func send(b *testing.B, typed any) {
	if _, err := peer.Object(typed); err != nil {
		b.Fatal(err)
	}
}
