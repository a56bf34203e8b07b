// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/yaml"

	"github.com/trellis-k8s/trellis/internal/version"
	"github.com/trellis-k8s/trellis/test/testutil/stored"
)

func readCRD(t *testing.T, path string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.Unmarshal(raw, crd); err != nil {
		t.Fatal(err)
	}
	if len(crd.Spec.Versions) > 1 { // as config/crd has it
		crd.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.WebhookConverter}
	}
	return crd
}

func TestOurOwnDefinitionsPass(t *testing.T) {
	for _, want := range expected {
		plural, group, _ := strings.Cut(want.name, ".")
		crd := readCRD(t, filepath.Join("..", "..", "config", "crd", "bases", group+"_"+plural+".yaml"))
		for _, version := range crd.Spec.Versions {
			crd.Status.StoredVersions = append(crd.Status.StoredVersions, version.Name)
		}
		if err := judge(crd, want.field, want.owner); err != nil {
			t.Errorf("%s: %v", want.name, err)
		}
	}
}

// Without its conversion a definition would have the API server rename the version and drop what it does not know.
func TestVersionsAreConverted(t *testing.T) {
	for title, conversion := range map[string]*apiextensionsv1.CustomResourceConversion{"left out": nil, "None": {Strategy: apiextensionsv1.NoneConverter}} {
		t.Run(title, func(t *testing.T) {
			crd := readCRD(t, filepath.Join("..", "..", "config", "crd", "bases", "nvidia.com_dynamographdeployments.yaml"))
			crd.Spec.Conversion = conversion
			if err := judge(crd, expected[0].field, expected[0].owner); err == nil || !strings.Contains(err.Error(), "no conversion webhook") {
				t.Errorf("got %v", err)
			}
		})
	}
}

// The definitions of a release that knew v1alpha1 only are ours, and too old.
func TestEarlierDefinitionsAreExplained(t *testing.T) {
	crds, err := stored.ReleasedDefinitions()
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, crd := range crds {
		for _, want := range expected {
			if want.name != crd.Name {
				continue
			}
			seen++
			says := ""
			switch {
			case converted[crd.Name]:
				says = "earlier release of Trellis, which does not serve v1beta1"
			case crd.Name == "scalinggroups.trellis.dev":
				says = "earlier release of Trellis, without the field status.begun"
			}
			err := judge(crd, want.field, want.owner)
			if (err != nil) != (says != "") || err != nil && !strings.Contains(err.Error(), says) {
				t.Errorf("%s: %v", crd.Name, err)
			}
		}
	}
	if want := len(expected) - 1; seen != want { // that release had no GraphPlacements
		t.Errorf("looked at %d definitions, want %d", seen, want)
	}
}

// Dynamo's own definition of the objects that workers publish is as good as ours; without one the operator could not watch them.
func TestWorkerMetadataMayBeOthers(t *testing.T) {
	ours := readCRD(t, filepath.Join("..", "..", "config", "crd", "bases", "nvidia.com_dynamoworkermetadatas.yaml"))
	ours.Spec.Versions[0].Schema, ours.Spec.Versions[0].Subresources = nil, nil
	served := ours.DeepCopy()
	served.Spec.Versions[0].Served = false
	var all []client.Object
	for _, want := range expected {
		if want.name == ours.Name {
			continue
		}
		plural, group, _ := strings.Cut(want.name, ".")
		all = append(all, readCRD(t, filepath.Join("..", "..", "config", "crd", "bases", group+"_"+plural+".yaml")))
	}
	scheme := runtime.NewScheme()
	if err := apiextensionsv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	for title, c := range map[string]struct {
		crd  *apiextensionsv1.CustomResourceDefinition
		want string
	}{
		"Dynamo's":        {ours, ""},
		"not served":      {served, "custom resource definition dynamoworkermetadatas.nvidia.com does not serve version v1alpha1"},
		"it is not there": {nil, "custom resource definition dynamoworkermetadatas.nvidia.com is not installed; install Trellis' definitions"},
	} {
		t.Run(title, func(t *testing.T) {
			builder := fake.NewClientBuilder().WithScheme(scheme).WithObjects(all...)
			if c.crd != nil {
				builder.WithObjects(c.crd.DeepCopy())
			}
			err := Check(t.Context(), builder.Build())
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// An operator that is older than the definitions does not start; one that is newer does, or says which field is missing.
func TestDefinitionsOfALaterVersion(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := apiextensionsv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	for of, refused := range map[string]bool{
		"v999.0.0": true, "v0.999.0-rc.1": true, version.Source: false, "v0.1.0": false, "": false, "edited by hand": false,
	} {
		t.Run(of, func(t *testing.T) {
			builder := fake.NewClientBuilder().WithScheme(scheme)
			for _, want := range expected {
				plural, group, _ := strings.Cut(want.name, ".")
				crd := readCRD(t, filepath.Join("..", "..", "config", "crd", "bases", group+"_"+plural+".yaml"))
				if got := crd.Annotations[version.Annotation]; got != version.Source {
					t.Errorf("%s is of %q, want %s: run make generate", crd.Name, got, version.Source)
				}
				crd.Annotations[version.Annotation] = of
				builder.WithObjects(crd)
			}
			err := Check(t.Context(), builder.Build())
			if refused != (err != nil) {
				t.Fatalf("got %v", err)
			}
			if !refused {
				return
			}
			says := "custom resource definitions dynamographdeployments.nvidia.com, dynamographdeploymentscalingadapters.nvidia.com, "
			for _, want := range []string{says, "are those of Trellis " + of + ", and this operator is " + version.Source, "Upgrade the operator to " + of} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want %q", err, want)
				}
			}
			if strings.Count(err.Error(), "preflight:") != 1 {
				t.Errorf("it is said more than once: %v", err)
			}
		})
	}
}

func TestConflictsAreExplained(t *testing.T) {
	const name = "nvidia.com_dynamographdeployments.yaml"
	cases := map[string]struct {
		change func(*apiextensionsv1.CustomResourceDefinition)
		want   string
	}{
		"stored in another version": {func(crd *apiextensionsv1.CustomResourceDefinition) {
			crd.Status.StoredVersions = []string{"v1alpha1", "v1beta1", "v1"}
		}, "are stored as v1,"},
		"another operator's schema": {func(crd *apiextensionsv1.CustomResourceDefinition) {
			spec := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
			delete(spec.Properties, "topologyConstraint")
		}, "has no field spec.topologyConstraint.preferredPackDomain"},
		"no status": {func(crd *apiextensionsv1.CustomResourceDefinition) {
			crd.Spec.Versions[0].Subresources = nil
		}, "no status subresource"},
		"version not served": {func(crd *apiextensionsv1.CustomResourceDefinition) {
			crd.Spec.Versions[0].Served = false
		}, "does not serve version v1alpha1"},
	}
	for title, c := range cases {
		t.Run(title, func(t *testing.T) {
			crd := readCRD(t, filepath.Join("..", "..", "config", "crd", "bases", name))
			c.change(crd)
			err := judge(crd, expected[0].field, expected[0].owner)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "the Dynamo operator") {
				t.Errorf("got %v, want an error with %q and whose definition it seems to be", err, c.want)
			}
		})
	}
}
