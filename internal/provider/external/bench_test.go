// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package external_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/provider/external"
	"github.com/trellis-k8s/trellis/internal/provider/grove"
	"github.com/trellis-k8s/trellis/internal/provider/kai"
	"github.com/trellis-k8s/trellis/internal/provider/lws"
	"github.com/trellis-k8s/trellis/test/testutil/hub"
	"github.com/trellis-k8s/trellis/test/testutil/providertest"
)

// BenchmarkRender renders a deployment of 25 multinode components, 2 replicas of 8 pods each, which has to take less than 2 ms. Encoding what
// was rendered, to compare or send it, is apart.
func BenchmarkRender(b *testing.B) {
	dgd := &nvidiav1beta1.DynamoGraphDeployment{}
	dgd.Name, dgd.Namespace = "large", "team-a"
	dgd.Spec.TopologyConstraint = &nvidiav1beta1.SpecTopologyConstraint{ClusterTopologyName: "grove-topology", PackDomain: "zone"}
	for i := range 25 {
		dgd.Spec.Components = append(dgd.Spec.Components, nvidiav1beta1.ComponentSpec{
			Name:               fmt.Sprintf("Decode%02d", i),
			Type:               nvidiav1beta1.ComponentTypeDecode,
			Replicas:           ptr.To[int32](2),
			Multinode:          &nvidiav1beta1.MultinodeSpec{NodeCount: 8},
			TopologyConstraint: &nvidiav1beta1.TopologyConstraint{PackDomain: "rack"},
			PodTemplate:        hub.Main(&corev1.Container{Command: []string{"python3", "-m", "dynamo.sglang"}}),
		})
	}
	k, g := providertest.KAI(b, dgd), providertest.Grove(b, dgd)
	inSets := providertest.InSets(k.Groups)
	providers := map[string]func() []any{
		"KAI":   func() []any { return []any{kai.RenderPodGroup(k)} },
		"Grove": func() []any { return []any{grove.Render(g, grove.Schema{Shape: grove.ShapePack})} },
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
	for name, rendering := range providers {
		b.Run("provider="+name+"/render", func(b *testing.B) {
			for b.Loop() {
				rendering()
			}
		})
		b.Run("provider="+name+"/encode", func(b *testing.B) {
			objects := rendering()
			for b.Loop() {
				for _, object := range objects {
					if _, err := external.Object(object); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
