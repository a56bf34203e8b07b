// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"os"
	"path/filepath"
	"testing"

	"sigs.k8s.io/yaml"

	grovev1alpha1 "github.com/trellis-k8s/trellis/api/grove/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
)

// The rejected ones too: their fault is in a value, not in a misspelt field, which would be refused for another reason.
func TestSamplesDecodeStrictly(t *testing.T) {
	count := 0
	for _, pattern := range []string{"/config/samples/*.yaml", "/config/samples/rejected/*.yaml"} {
		files, err := filepath.Glob(root + pattern)
		if err != nil || len(files) == 0 {
			t.Fatal(pattern, files, err)
		}
		for _, file := range files {
			if filepath.Base(file) == "kustomization.yaml" {
				continue
			}
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			documents, err := split(raw)
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			for _, document := range documents {
				into, known := map[string]any{"ClusterTopology": &grovev1alpha1.ClusterTopology{}, "DynamoGraphDeployment": &nvidiav1beta1.DynamoGraphDeployment{}}[document.GetKind()]
				if !known {
					t.Errorf("%s holds a %s", file, document.GetKind())
					continue
				}
				plain, err := document.MarshalJSON()
				if err != nil {
					t.Fatal(err)
				}
				if err := yaml.UnmarshalStrict(plain, into); err != nil {
					t.Errorf("%s: %v", file, err)
				}
				count++
			}
		}
	}
	if count < 10 {
		t.Errorf("found %d objects only", count)
	}
}
