// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/trellis-k8s/trellis/test/testutil/tier"
)

// The Secret's name as the operator knows it (internal/operator).
const certSecret = "trellis-webhook-server-cert"

// Without settings the chart installs what config/default does, to the letter. Only labels differ, and the Namespace, which is Helm's.
// TestChartKeepsDefinitions looks at the definitions.
func TestChartAgreesWithKustomize(t *testing.T) {
	tier.All(t)
	both := installs(t)
	want, have := byIdentity(both["kustomize"]), byIdentity(both["helm"])
	delete(want, "Namespace /"+namespace)
	if diff := cmp.Diff(slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(have))); diff != "" {
		t.Errorf("other objects (-config/default, +chart):\n%s", diff)
	}
	for id := range want {
		if have[id] == nil || want[id].GetKind() == "CustomResourceDefinition" {
			continue
		}
		if diff := cmp.Diff(strip(want[id]), strip(have[id])); diff != "" {
			t.Errorf("%s differs (-config/default, +chart):\n%s", id, diff)
		}
	}
}

func byIdentity(in objects) map[string]*unstructured.Unstructured {
	found := map[string]*unstructured.Unstructured{}
	for _, o := range in {
		found[o.GetKind()+" "+o.GetNamespace()+"/"+o.GetName()] = o
	}
	return found
}

// strip leaves out what an installer may say about itself: labels of the object, though roles keep those that aggregate them, and the
// annotation that Helm keeps definitions by.
func strip(in *unstructured.Unstructured) map[string]any {
	out := in.DeepCopy()
	kept := out.GetLabels()
	maps.DeleteFunc(kept, func(key, _ string) bool { return !strings.HasPrefix(key, "rbac.authorization.k8s.io/") })
	out.SetLabels(kept)
	annotations := out.GetAnnotations()
	delete(annotations, "helm.sh/resource-policy")
	out.SetAnnotations(annotations)
	return out.Object
}

// kubectl applies in the order of the file, and a definition or a namespace must be there before what lives in it.
func TestOrderCanBeApplied(t *testing.T) {
	rendered, err := kustomized()
	if err != nil {
		t.Fatal(err)
	}
	if rendered[0].GetKind() != "Namespace" {
		t.Errorf("the first object is a %s", rendered[0].GetKind())
	}
	rank := map[string]int{"Namespace": 1, "CustomResourceDefinition": 2, "ServiceAccount": 3, "Deployment": 4, "MutatingWebhookConfiguration": 5, "ValidatingWebhookConfiguration": 5}
	last := 0
	for _, o := range rendered {
		if r := rank[o.GetKind()]; r > 0 {
			if r < last {
				t.Errorf("%s %s comes too late", o.GetKind(), o.GetName())
			}
			last = r
		}
	}
}

// The other kustomizations a user may apply render too.
func TestOtherKustomizations(t *testing.T) {
	bare, err := kustomize(root + "/config/default-no-crds")
	if err != nil {
		t.Fatal(err)
	}
	whole, err := kustomized()
	if err != nil {
		t.Fatal(err)
	}
	definitions, err := kustomize(root + "/config/crd")
	if err != nil {
		t.Fatal(err)
	}
	if len(whole)-len(bare) != len(definitions) {
		t.Errorf("without definitions there are %d objects, with them %d, and %d definitions", len(bare), len(whole), len(definitions))
	}
	for _, dir := range []string{"crd", "samples", "prometheus", "grafana", "podmonitors"} {
		rendered, err := kustomize(root + "/config/" + dir)
		if err != nil || len(rendered) == 0 {
			t.Errorf("config/%s: %d objects, %v", dir, len(rendered), err)
		}
	}
}
