// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	trellisv1alpha1 "github.com/trellis-k8s/trellis/api/trellis/v1alpha1"
	"github.com/trellis-k8s/trellis/test/hub"
)

func TestChooseEngine(t *testing.T) {
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
		want           EngineChoice
	}{
		"nothing said":              {object: plain, want: EngineChoice{EngineGates, "by default"}},
		"auto":                      {object: plain, preset: EngineAuto, want: EngineChoice{EngineGates, "by default"}},
		"pods on KAI":               {object: onKAI, preset: EngineAuto, want: EngineChoice{EngineKAI, "by schedulerName kai-scheduler of service Worker"}},
		"the operator's":            {object: onKAI, preset: EnginePodGroup, want: EngineChoice{EnginePodGroup, "by the operator's flag --engine"}},
		"the deployment's":          {object: onKAI, preset: EnginePodGroup, annotations: map[string]string{AnnotationEngine: EngineGates}, want: EngineChoice{EngineGates, "by the annotation trellis.dev/engine"}},
		"the deployment says auto":  {object: plain, preset: EnginePodGroup, annotations: map[string]string{AnnotationEngine: EngineAuto}, want: EngineChoice{EnginePodGroup, "by the operator's flag --engine"}},
		"Grove ruled out":           {object: plain, preset: EngineGrove, annotations: map[string]string{AnnotationEnableGrove: "false"}, want: EngineChoice{EngineGates, "by default, Grove being ruled out by the annotation nvidia.com/enable-grove"}},
		"Grove ruled out, on KAI":   {object: onKAI, preset: EngineGrove, annotations: map[string]string{AnnotationEnableGrove: "false"}, want: EngineChoice{EngineKAI, "by schedulerName kai-scheduler of service Worker, Grove being ruled out by the annotation nvidia.com/enable-grove"}},
		"Grove enabled":             {object: plain, preset: EngineGrove, annotations: map[string]string{AnnotationEnableGrove: "true"}, want: EngineChoice{EngineGrove, "by the operator's flag --engine"}},
		"Grove enabled, not chosen": {object: plain, preset: EngineAuto, annotations: map[string]string{AnnotationEnableGrove: "true"}, want: EngineChoice{EngineGates, "by default"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			dgd := &nvidiav1alpha1.DynamoGraphDeployment{}
			if err := yaml.UnmarshalStrict([]byte(test.object), dgd); err != nil {
				t.Fatal(err)
			}
			dgd.Annotations = test.annotations
			if diff := cmp.Diff(test.want, ChooseEngine(hub.Of(dgd), test.preset)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Whatever engine makes its pods from scaling groups has them gated; the hash of a template does not depend on the engine.
func TestEnginesAndGates(t *testing.T) {
	for _, engine := range EngineNames {
		sg := &trellisv1alpha1.ScalingGroup{Spec: trellisv1alpha1.ScalingGroupSpec{Engine: engine, Multinode: true, Replicas: 1}}
		want := slices.Contains([]string{EngineGates, EnginePodGroup, EngineKAI}, engine)
		if Gated(sg) != want {
			t.Errorf("%s: gated %v, want %v", engine, !want, want)
		}
	}
}
