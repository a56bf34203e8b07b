// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/test/testutil/golden"
)

// TestManifests resolves every deployment users are known to have written, where the samples are at hand, and shows all that becomes of it.
// What a sample presupposes lies alongside its golden, for the end-to-end test that brings it up.
func TestManifests(t *testing.T) {
	files, _ := filepath.Glob("../../../shared/manifests/*.yaml")
	if len(files) == 0 {
		t.Skip("no samples beside the repository")
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			var out []string
			for _, dgd := range deploymentsIn(t, file) {
				out = append(out, checkManifest(t, dgd))
			}
			golden.Check(t, "testdata/manifests/"+strings.TrimSuffix(filepath.Base(file), ".yaml")+".golden", strings.Join(out, "\n"))
		})
	}
}

func checkManifest(t *testing.T, dgd *nvidiav1beta1.DynamoGraphDeployment) string {
	t.Helper()
	if dgd.Namespace == "" || strings.HasPrefix(dgd.Namespace, "<") { // to be filled in
		dgd.Namespace = "team"
	}
	ct := hallOne(t)
	if dgd.Spec.TopologyConstraint != nil {
		ct.Name = dgd.Spec.TopologyConstraint.ClusterTopologyName
	}
	before := dgd.DeepCopy()
	g, err := Resolve(dgd, Inputs{Topology: ct, Provider: specs.Gates.Name})
	if err != nil {
		t.Fatalf("%s: %v", dgd.Name, err)
	}
	checkObjects(t, g, 3)
	if diff := cmp.Diff(before, dgd); diff != "" {
		t.Errorf("%s was changed by resolving it:\n%s", dgd.Name, diff)
	}
	for i, s := range g.Components {
		if got, want := s.Roles[0].Template.Spec.Containers[0].Image, userContainer(dgd.Component(s.Name), 0, "").Image; got != want {
			t.Errorf("service %d %s: image %q, want %q", i, s.Name, got, want)
		}
	}
	return summary(dgd, g)
}

// deploymentsIn a file, of either version.
func deploymentsIn(t testing.TB, file string) []*nvidiav1beta1.DynamoGraphDeployment {
	t.Helper()
	var out []*nvidiav1beta1.DynamoGraphDeployment
	for _, document := range documentsIn(t, file) {
		dgd := &nvidiav1beta1.DynamoGraphDeployment{}
		if err := json.Unmarshal(convertJSON(t, document, "v1beta1"), dgd); err != nil {
			t.Fatal(err)
		}
		out = append(out, dgd)
	}
	return out
}

// documentsIn a file are its deployments as JSON.
func documentsIn(t testing.TB, file string) [][]byte {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out [][]byte
	for _, document := range bytes.Split(raw, []byte("\n---")) {
		var kind runtime.TypeMeta
		if yaml.Unmarshal(document, &kind) != nil || kind.Kind != "DynamoGraphDeployment" {
			continue
		}
		converted, err := yaml.YAMLToJSON(document)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, converted)
	}
	return out
}

func convertJSON(t testing.TB, raw []byte, version string) []byte {
	t.Helper()
	out, err := nvidiav1alpha1.ConvertJSON(raw, version)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
