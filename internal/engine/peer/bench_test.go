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
	"github.com/trellis-k8s/trellis/internal/engine/lws"
	"github.com/trellis-k8s/trellis/internal/engine/peer"
	"github.com/trellis-k8s/trellis/internal/engine/peer/peertest"
)

// BenchmarkRender renders a deployment of 25 multinode services, 2 replicas of 8 pods each, which has to take less than 2 ms. Encoding what
// was rendered, to compare or send it, is apart.
func BenchmarkRender(b *testing.B) {
	dgd := &nvidiav1alpha1.DynamoGraphDeployment{}
	dgd.Name, dgd.Namespace = "large", "team-a"
	dgd.Spec.TopologyConstraint = &nvidiav1alpha1.SpecTopologyConstraint{TopologyProfile: "grove-topology", PackDomain: "zone"}
	dgd.Spec.Services = map[string]*nvidiav1alpha1.ServiceSpec{}
	for i := range 25 {
		dgd.Spec.Services[fmt.Sprintf("Decode%02d", i)] = &nvidiav1alpha1.ServiceSpec{
			ComponentType:      nvidiav1alpha1.ComponentTypeDecode,
			Replicas:           ptr.To[int32](2),
			Multinode:          &nvidiav1alpha1.MultinodeSpec{NodeCount: 8},
			TopologyConstraint: &nvidiav1alpha1.ServiceTopologyConstraint{PackDomain: "rack"},
			ExtraPodSpec:       &nvidiav1alpha1.ExtraPodSpec{MainContainer: &corev1.Container{Command: []string{"python3", "-m", "dynamo.sglang"}}},
		}
	}
	k, g := peertest.KAI(b, dgd), peertest.Grove(b, dgd)
	inSets := peertest.InSets(k.Groups)
	engines := map[string]func() []any{
		"KAI":   func() []any { return []any{kai.RenderPodGroup(k)} },
		"Grove": func() []any { return []any{grove.Render(g, grove.Dialect{Shape: grove.ShapePack})} },
		"LWS": func() (out []any) { // 50 sets
			for _, sg := range inSets {
				templates := lws.For(sg)
				for ordinal := range sg.Spec.Replicas {
					out = append(out, templates.Render(ordinal, func(pod *corev1.Pod) { k.Prepare(pod, sg) }))
				}
			}
			return out
		},
	}
	for name, render := range engines {
		b.Run("engine="+name+"/render", func(b *testing.B) {
			for b.Loop() {
				render()
			}
		})
		b.Run("engine="+name+"/encode", func(b *testing.B) {
			objects := render()
			for b.Loop() {
				for _, object := range objects {
					if _, err := peer.Object(object); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
