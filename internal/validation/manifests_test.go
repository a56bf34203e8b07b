// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"bufio"
	"bytes"
	"os"
	"path/filepath"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	yamlutil "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
)

// manifestsDir holds manifests that users have. The folder lies alongside the checkout and need not be there.
const manifestsDir = "../../../shared/manifests"

// TestManifestsInUse: none is refused as a new deployment, in either version.
func TestManifestsInUse(t *testing.T) {
	var files []string
	for _, pattern := range []string{"*.yaml", "v1beta1/*.yaml"} {
		found, err := filepath.Glob(filepath.Join(manifestsDir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	if len(files) == 0 {
		t.Skipf("no manifests in %s", manifestsDir)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			deployments := deploymentsIn(t, raw)
			if len(deployments) == 0 {
				t.Error("no DynamoGraphDeployment found")
			}
			for _, dgd := range deployments {
				if errs := GraphCreate(dgd); len(errs) > 0 {
					t.Errorf("%s is refused: %v", dgd.Name, errs.ToAggregate())
				}
				if lines := GraphWarnings(dgd, nil, nil); len(lines) > 0 {
					t.Logf("%s: %q", dgd.Name, lines)
				}
			}
		})
	}
}

// deploymentsIn reads the DynamoGraphDeployments of a file with several documents, and refuses fields our types do not know.
func deploymentsIn(t *testing.T, raw []byte) []Written {
	t.Helper()
	var found []Written
	reader := yamlutil.NewYAMLReader(bufio.NewReader(bytes.NewReader(raw)))
	for {
		doc, err := reader.Read()
		if err != nil {
			return found
		}
		kind := metav1.TypeMeta{}
		if err := yaml.Unmarshal(doc, &kind); err != nil {
			t.Fatal(err)
		}
		if kind.Kind != "DynamoGraphDeployment" {
			continue
		}
		var strict any = &deployment{}
		if kind.APIVersion == nvidiav1beta1.GroupVersion.String() {
			strict = &nvidiav1beta1.DynamoGraphDeployment{}
		}
		if err := yaml.UnmarshalStrict(doc, strict); err != nil {
			t.Fatal(err)
		}
		object, err := yaml.YAMLToJSON(doc)
		if err != nil {
			t.Fatal(err)
		}
		dgd, err := FromJSON(object)
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, dgd)
	}
}
