// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"bufio"
	"bytes"
	"os"
	"path/filepath"
	"testing"

	yamlutil "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// manifestsDir holds manifests that users have. The folder lies beside the checkout and need not be there.
const manifestsDir = "../../../shared/manifests"

func TestManifestsInUse(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(manifestsDir, "*.yaml"))
	if err != nil {
		t.Fatal(err)
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
				if errs := Graph(written(dgd)); len(errs) > 0 {
					t.Errorf("%s is refused: %v", dgd.Name, errs.ToAggregate())
				}
				if lines := GraphWarnings(written(dgd), nil, nil); len(lines) > 0 {
					t.Logf("%s: %q", dgd.Name, lines)
				}
			}
		})
	}
}

// deploymentsIn reads the DynamoGraphDeployments of a file with several documents, and refuses fields our types do not know.
func deploymentsIn(t *testing.T, raw []byte) []*deployment {
	t.Helper()
	var found []*deployment
	reader := yamlutil.NewYAMLReader(bufio.NewReader(bytes.NewReader(raw)))
	for {
		doc, err := reader.Read()
		if err != nil {
			return found
		}
		var kind struct{ Kind string }
		if err := yaml.Unmarshal(doc, &kind); err != nil {
			t.Fatal(err)
		}
		if kind.Kind != "DynamoGraphDeployment" {
			continue
		}
		dgd := &deployment{}
		if err := yaml.UnmarshalStrict(doc, dgd); err != nil {
			t.Fatal(err)
		}
		found = append(found, dgd)
	}
}
