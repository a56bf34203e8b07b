// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
)

// TestBothVersionsGiveTheSameObjects: a graph that someone wrote in v1beta1, and again in v1alpha1, gives the same objects, byte for byte.
func TestBothVersionsGiveTheSameObjects(t *testing.T) {
	files, _ := filepath.Glob("testdata/pairs/*.v1beta1.yaml")
	if len(files) == 0 {
		t.Fatal("no examples")
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			var written [2][]byte
			for i, name := range []string{file, strings.Replace(file, "v1beta1", "v1alpha1", 1)} {
				documents := documentsIn(t, name)
				if len(documents) != 1 {
					t.Fatalf("%s holds %d deployments", name, len(documents))
				}
				written[i] = documents[0]
			}
			checkStrictly[nvidiav1beta1.DynamoGraphDeployment](t, written[0])
			checkStrictly[nvidiav1alpha1.DynamoGraphDeployment](t, written[1])
			if diff := cmp.Diff(objectsOf(t, written[0]), objectsOf(t, written[1])); diff != "" {
				t.Errorf("(-v1beta1 +v1alpha1):\n%s", diff)
			}
		})
	}
}

// checkStrictly that a document has no misspelt field: one that neither version has would not be missed in the objects.
func checkStrictly[T any](t *testing.T, document []byte) {
	t.Helper()
	if err := yaml.UnmarshalStrict(document, new(T)); err != nil {
		t.Fatal(err)
	}
}

// TestConvertedGivesTheSameObjects: so does what is translated to v1alpha1 without the memory of what it was, also in the form that it has where
// were never written in v1alpha1: our examples and, where they are in a folder next to the repository, what users wrote.
func TestConvertedGivesTheSameObjects(t *testing.T) {
	for _, pattern := range []string{"testdata/pairs/*.v1beta1.yaml", "../../../shared/manifests/v1beta1/*.yaml"} {
		files, _ := filepath.Glob(pattern)
		for _, file := range files {
			t.Run(filepath.Base(file), func(t *testing.T) {
				for _, document := range documentsIn(t, file) {
					if bytes.Contains(document, []byte(`"frontendSidecar":`)) {
						continue // v1alpha1 remembers that a container is one: it cannot say all that this container does
					}
					want := objectsOf(t, document)
					for form, written := range map[string][]byte{"as it is": document, "with its writer": writtenInBeta(t, document)} {
						alpha := withoutMemory(t, convertJSON(t, written, "v1alpha1"))
						if diff := cmp.Diff(want, objectsOf(t, alpha)); diff != "" {
							t.Errorf("%s (-v1beta1 +v1alpha1):\n%s", form, diff)
						}
					}
				}
			})
		}
	}
}

// writtenInBeta is a document as the API server has it that was written in v1beta1 alone.
func writtenInBeta(t *testing.T, document []byte) []byte {
	t.Helper()
	out := &unstructured.Unstructured{}
	if err := out.UnmarshalJSON(document); err != nil {
		t.Fatal(err)
	}
	out.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "m", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: nvidiav1beta1.GroupVersion.String()}})
	raw, err := out.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func withoutMemory(t *testing.T, document []byte) []byte {
	t.Helper()
	plain := &unstructured.Unstructured{}
	if err := plain.UnmarshalJSON(document); err != nil {
		t.Fatal(err)
	}
	annotations := plain.GetAnnotations()
	delete(annotations, nvidiav1alpha1.AnnotationSpecMemory)
	plain.SetAnnotations(annotations)
	out, err := plain.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func objectsOf(t *testing.T, document []byte) []string {
	t.Helper()
	dgd := &nvidiav1beta1.DynamoGraphDeployment{}
	if err := json.Unmarshal(convertJSON(t, document, "v1beta1"), dgd); err != nil {
		t.Fatal(err)
	}
	dgd.Namespace = "team"
	in := Inputs{Topology: hallOne(t), Provider: specs.Gates.Name}
	if c := dgd.Spec.TopologyConstraint; c != nil {
		in.Topology.Name = c.ClusterTopologyName
	}
	g, err := Resolve(dgd, in)
	if err != nil {
		t.Fatalf("%s: %v", dgd.Name, err)
	}
	return rendered(t, g)
}

// rendered are all objects of a graph without the hashes of the input, which tell the versions apart where what they say is the same.
func rendered(t *testing.T, g *Graph) []string {
	t.Helper()
	var out []string
	for _, sg := range g.ScalingGroups() {
		sg.Spec.Input = nil
		out = append(out, toYAML(t, sg))
	}
	for _, service := range g.KubernetesServices() {
		out = append(out, toYAML(t, service))
	}
	for _, object := range brought(g) {
		out = append(out, toYAML(t, object))
	}
	for _, pod := range firstPods(g) {
		out = append(out, toYAML(t, pod))
	}
	return out
}
