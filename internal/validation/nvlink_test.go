// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/nvlink"
)

func TestCliqueWarnings(t *testing.T) {
	cliques := []grovev1alpha1.TopologyLevel{
		{Domain: "zone", Key: "z"}, {Domain: "clique", Key: nvlink.CliqueLabel}, {Domain: "host", Key: corev1.LabelHostname},
	}
	const graph = "pods of the ComputeDomain cd may be placed in two NVLink cliques, which share no memory: set spec.topologyConstraint.packDomain to \"clique\" (decode, prefill)"
	const component = "pods of the ComputeDomain cd may be placed in two NVLink cliques, which share no memory: set spec.components[0].topologyConstraint.packDomain to \"clique\" (decode)"
	const annotation = "pods of the ComputeDomain cd may be placed in two NVLink cliques, which share no memory: " +
		"set annotation kai.scheduler/topology-required-placement to \"nvidia.com/gpu.clique\""
	for name, tc := range map[string]struct {
		levels []grovev1alpha1.TopologyLevel
		// graph and own are packDomain of the deployment and of the first component, required the annotation.
		graph, own, required string
		// templates of the two components; single: neither is multinode.
		templates [2]string
		single    bool
		want      []string
	}{
		"two components share it":               {cliques, "zone", "", "", [2]string{"channel", "channel"}, false, []string{graph}},
		"two components, each in one clique":    {cliques, "zone", "clique", "", [2]string{"channel", "channel"}, false, []string{graph}},
		"two single-node components":            {cliques, "", "", "", [2]string{"channel", "channel"}, true, []string{graph}},
		"the deployment is in one clique":       {cliques, "clique", "", "", [2]string{"channel", "channel"}, false, nil},
		"the deployment is on one host":         {cliques, "host", "", "", [2]string{"channel", "channel"}, false, nil},
		"the annotation packs it into one":      {cliques, "", "", nvlink.CliqueLabel, [2]string{"channel", "channel"}, false, nil},
		"an annotation packs it wider":          {cliques, "", "", "z", [2]string{"channel", "channel"}, false, []string{annotation + " (decode, prefill)"}},
		"and one component has a domain":        {cliques, "", "", "z", [2]string{"channel", "gpu"}, false, []string{annotation + " (decode)"}},
		"one multinode component":               {cliques, "zone", "", "", [2]string{"channel", "gpu"}, false, []string{component}},
		"one multinode component in one clique": {cliques, "zone", "clique", "", [2]string{"channel", "gpu"}, false, nil},
		"one single-node component":             {cliques, "zone", "", "", [2]string{"channel", ""}, true, nil},
		"claims that are no channels":           {cliques, "zone", "", "", [2]string{"gpu", "gpu"}, false, nil},
		"a topology without cliques":            {cliques[:1], "zone", "", "", [2]string{"channel", "channel"}, false, nil},
		"no topology":                           {nil, "", "", "", [2]string{"channel", "channel"}, false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			dgd := &nvidiav1beta1.DynamoGraphDeployment{}
			for i, component := range []string{"decode", "prefill"} {
				c := nvidiav1beta1.ComponentSpec{Name: component, PodTemplate: &corev1.PodTemplateSpec{}}
				if !tc.single {
					c.Multinode = &nvidiav1beta1.MultinodeSpec{NodeCount: 2}
				}
				if tc.templates[i] != "" {
					c.PodTemplate.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "x", ResourceClaimTemplateName: ptr.To(tc.templates[i])}}
				}
				dgd.Spec.Components = append(dgd.Spec.Components, c)
			}
			if tc.graph != "" {
				dgd.Spec.TopologyConstraint = &nvidiav1beta1.SpecTopologyConstraint{PackDomain: tc.graph}
			}
			if tc.own != "" {
				dgd.Spec.Components[0].TopologyConstraint = &nvidiav1beta1.TopologyConstraint{PackDomain: tc.own}
			}
			if tc.required != "" {
				dgd.Annotations = map[string]string{"kai.scheduler/topology-required-placement": tc.required}
			}
			var topology *grovev1alpha1.ClusterTopology
			if tc.levels != nil {
				topology = &grovev1alpha1.ClusterTopology{Spec: grovev1alpha1.ClusterTopologySpec{Levels: tc.levels}}
			}
			domain := nvlink.ComputeDomain{}
			domain.Name, domain.Spec.Channel.ResourceClaimTemplate.Name = "cd", "channel"
			var got []string
			for _, line := range CliqueWarnings(dgd, topology, []nvlink.ComputeDomain{domain}) {
				got = append(got, line.In(""))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}

// The warning describes what to set, whatever length the names have.
func TestCliqueWarningsOfLongNames(t *testing.T) {
	long := strings.Repeat("n", 60)
	dgd := &nvidiav1beta1.DynamoGraphDeployment{}
	dgd.Annotations = map[string]string{"kai.scheduler/topology": "t"}
	for range 9 {
		c := nvidiav1beta1.ComponentSpec{Name: long, PodTemplate: &corev1.PodTemplateSpec{}}
		c.PodTemplate.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "x", ResourceClaimTemplateName: ptr.To("channel")}}
		dgd.Spec.Components = append(dgd.Spec.Components, c)
	}
	topology := &grovev1alpha1.ClusterTopology{}
	topology.Spec.Levels = []grovev1alpha1.TopologyLevel{{Domain: "clique", Key: nvlink.CliqueLabel}}
	domain := nvlink.ComputeDomain{}
	domain.Name, domain.Spec.Channel.ResourceClaimTemplate.Name = long, "channel"
	lines := CliqueWarnings(dgd, topology, []nvlink.ComputeDomain{domain})
	want := `set annotation kai.scheduler/topology-required-placement to "nvidia.com/gpu.clique" (nn`
	if len(lines) != 1 || !strings.Contains(lines[0].In(""), want) || len(lines[0].In("")) > maxLine {
		t.Errorf("%v", lines)
	}
}
