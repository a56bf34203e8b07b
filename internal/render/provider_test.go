// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/test/testutil/hub"
)

func TestChooseProvider(t *testing.T) {
	const onKAI = `
metadata: {name: g}
spec:
  services:
    Frontend: {}
    Worker: {extraPodSpec: {schedulerName: kai-scheduler}}`
	const plain = `
metadata: {name: g}
spec: {services: {Frontend: {}, Worker: {extraPodSpec: {schedulerName: second-scheduler}}}}`
	tests := map[string]struct {
		object, preset string
		annotations    map[string]string
		want           ProviderChoice
	}{
		"nothing said":              {object: plain, want: ProviderChoice{specs.Gates.Name, "by default"}},
		"auto":                      {object: plain, preset: specs.Auto, want: ProviderChoice{specs.Gates.Name, "by default"}},
		"pods on KAI":               {object: onKAI, preset: specs.Auto, want: ProviderChoice{specs.KAI.Name, "by schedulerName kai-scheduler of component Worker"}},
		"the operator's":            {object: onKAI, preset: specs.PodGroup.Name, want: ProviderChoice{specs.PodGroup.Name, "by the operator's flag --provider"}},
		"the deployment's":          {object: onKAI, preset: specs.PodGroup.Name, annotations: map[string]string{AnnotationProvider: specs.Gates.Name}, want: ProviderChoice{specs.Gates.Name, "by the annotation trellis.dev/provider"}},
		"the deployment says auto":  {object: plain, preset: specs.PodGroup.Name, annotations: map[string]string{AnnotationProvider: specs.Auto}, want: ProviderChoice{specs.PodGroup.Name, "by the operator's flag --provider"}},
		"by its former name":        {object: plain, annotations: map[string]string{AnnotationFormerProvider: specs.KAI.Name}, want: ProviderChoice{specs.KAI.Name, "by the annotation trellis.dev/engine"}},
		"both names":                {object: plain, annotations: map[string]string{AnnotationFormerProvider: specs.KAI.Name, AnnotationProvider: specs.Gates.Name}, want: ProviderChoice{specs.Gates.Name, "by the annotation trellis.dev/provider"}},
		"Dynamo's: grove":           {object: onKAI, annotations: map[string]string{specs.AnnotationWorkloadProvider: "grove"}, want: ProviderChoice{specs.Grove.Name, "by the annotation nvidia.com/workload-provider"}},
		"Dynamo's beside ours":      {object: plain, annotations: map[string]string{specs.AnnotationWorkloadProvider: "grove", AnnotationProvider: specs.Gates.Name}, want: ProviderChoice{specs.Gates.Name, "by the annotation trellis.dev/provider"}},
		"Dynamo's: component":       {object: plain, preset: specs.Grove.Name, annotations: map[string]string{specs.AnnotationWorkloadProvider: "component"}, want: ProviderChoice{specs.Gates.Name, "by default, Grove being ruled out by the annotation nvidia.com/workload-provider"}},
		"Grove ruled out":           {object: plain, preset: specs.Grove.Name, annotations: map[string]string{specs.AnnotationEnableGrove: "false"}, want: ProviderChoice{specs.Gates.Name, "by default, Grove being ruled out by the annotation nvidia.com/enable-grove"}},
		"Grove ruled out, on KAI":   {object: onKAI, preset: specs.Grove.Name, annotations: map[string]string{specs.AnnotationEnableGrove: "false"}, want: ProviderChoice{specs.KAI.Name, "by schedulerName kai-scheduler of component Worker, Grove being ruled out by the annotation nvidia.com/enable-grove"}},
		"Grove enabled":             {object: plain, preset: specs.Grove.Name, annotations: map[string]string{specs.AnnotationEnableGrove: "true"}, want: ProviderChoice{specs.Grove.Name, "by the operator's flag --provider"}},
		"Grove enabled, not chosen": {object: plain, preset: specs.Auto, annotations: map[string]string{specs.AnnotationEnableGrove: "true"}, want: ProviderChoice{specs.Gates.Name, "by default"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			dgd := &nvidiav1alpha1.DynamoGraphDeployment{}
			if err := yaml.UnmarshalStrict([]byte(test.object), dgd); err != nil {
				t.Fatal(err)
			}
			dgd.Annotations = test.annotations
			if diff := cmp.Diff(test.want, ChooseProvider(hub.Of(dgd), test.preset)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Whatever provider makes its pods from scaling groups has them gated; the hash of a template does not depend on the provider.
func TestProvidersAndGates(t *testing.T) {
	for _, provider := range specs.Names() {
		sg := &trellisv1alpha1.ScalingGroup{Spec: trellisv1alpha1.ScalingGroupSpec{Provider: provider, Multinode: true, Replicas: 1}}
		want := slices.Contains([]string{specs.Gates.Name, specs.PodGroup.Name, specs.KAI.Name}, provider)
		if Gated(sg) != want {
			t.Errorf("%s: gated %v, want %v", provider, !want, want)
		}
	}
}
