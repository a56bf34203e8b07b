// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"github.com/trellis-k8s/trellis/internal/webhook/convert"
	"github.com/trellis-k8s/trellis/test/testutil/tier"
)

// stanza is how the API server has objects converted.
func stanza(component, namespace string) *apiextensionsv1.CustomResourceConversion {
	return &apiextensionsv1.CustomResourceConversion{
		Strategy: apiextensionsv1.WebhookConverter,
		Webhook: &apiextensionsv1.WebhookConversion{
			ConversionReviewVersions: []string{"v1"},
			ClientConfig: &apiextensionsv1.WebhookClientConfig{Service: &apiextensionsv1.ServiceReference{
				Name: component, Namespace: namespace, Path: new(convert.Path), Port: new(int32(443)),
			}},
		},
	}
}

// checkConversion: the definitions with two versions have the stanza, and no other has.
func checkConversion(t *testing.T, install objects, component, namespace string) {
	t.Helper()
	var converted []string
	for name, crd := range all[apiextensionsv1.CustomResourceDefinition](t, install, "CustomResourceDefinition") {
		if len(crd.Spec.Versions) < 2 {
			if crd.Spec.Conversion != nil {
				t.Errorf("%s has one version and a conversion", name)
			}
			continue
		}
		converted = append(converted, name)
		if diff := cmp.Diff(stanza(component, namespace), crd.Spec.Conversion); diff != "" {
			t.Errorf("%s (-want, +have):\n%s", name, diff)
		}
		for _, version := range crd.Spec.Versions {
			if !version.Served || version.Storage != (version.Name == "v1beta1") {
				t.Errorf("%s %s: served %t, stored %t", name, version.Name, version.Served, version.Storage)
			}
		}
	}
	slices.Sort(converted)
	if want := slices.Sorted(maps.Values(convert.Definitions)); !slices.Equal(converted, want) {
		t.Errorf("%v have two versions, and the operator converts %v", converted, want)
	}
	if all[corev1.Service](t, install, "Service")[component] == nil {
		t.Errorf("there is no Service %s", component)
	}
}

func TestDefinitionsAreConverted(t *testing.T) {
	for name, install := range installs(t) {
		t.Run(name, func(t *testing.T) { checkConversion(t, install, "trellis-webhook-service", namespace) })
	}
	t.Run("helm, another namespace", func(t *testing.T) {
		tier.All(t)
		rendered, err := chart("elsewhere")
		if err != nil {
			t.Fatal(err)
		}
		checkConversion(t, rendered, "trellis-webhook-service", "elsewhere")
	})
	t.Run("kustomize, an overlay", func(t *testing.T) {
		checkConversion(t, overlay(t, "namespace: elsewhere\nnamePrefix: our-\n"), "our-trellis-webhook-service", "elsewhere")
	})
}

// overlay renders config/default as the resource of another kustomization.
func overlay(t *testing.T, text string) objects {
	t.Helper()
	files := filesys.MakeFsOnDisk()
	dir, err := os.MkdirTemp(root, "overlay") // kustomize reads below its own root only, and so the overlay is a sibling of config
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := files.WriteFile(dir+"/kustomization.yaml", []byte("resources: [../config/default]\n"+text)); err != nil {
		t.Fatal(err)
	}
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(files, dir)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := built.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	found, err := split(raw)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// The operator writes caBundle. A manifest that held one would take its place back at every apply.
func TestNoAuthorityIsShipped(t *testing.T) {
	for name, install := range installs(t) {
		for _, o := range install {
			if path := find(o.Object, "caBundle"); path != "" && !strings.Contains(path, "properties") {
				t.Errorf("%s: %s %s holds %s", name, o.GetKind(), o.GetName(), path)
			}
		}
	}
}

// find returns the path of a key, or nothing.
func find(in any, key string) string {
	switch v := in.(type) {
	case map[string]any:
		for name, child := range v {
			if name == key {
				return name
			}
			if path := find(child, key); path != "" {
				return name + "." + path
			}
		}
	case []any:
		for _, child := range v {
			if path := find(child, key); path != "" {
				return path
			}
		}
	}
	return ""
}

// The operator looks after the authority and the stored versions of the definitions it converts for, each by its name, and changes no other.
func TestRightsOnDefinitions(t *testing.T) {
	for name, install := range installs(t) {
		t.Run(name, func(t *testing.T) {
			changed := map[string][]string{}
			for role, r := range all[rbacv1.ClusterRole](t, install, "ClusterRole") {
				for _, rule := range r.Rules {
					if !slices.Contains(rule.Resources, "customresourcedefinitions") && !slices.Contains(rule.Resources, "customresourcedefinitions/status") {
						continue
					}
					if len(rule.ResourceNames) == 0 {
						t.Errorf("%s: a right to every definition: %v", role, rule)
					}
					for _, verb := range rule.Verbs {
						if verb == "get" || verb == "list" || verb == "watch" {
							continue
						}
						for _, definition := range rule.ResourceNames {
							changed[definition] = append(changed[definition], rule.Resources[0]+" "+verb)
						}
					}
				}
			}
			want := map[string][]string{}
			for _, definition := range convert.Definitions {
				want[definition] = []string{"customresourcedefinitions patch", "customresourcedefinitions/status patch"}
			}
			if diff := cmp.Diff(want, changed); diff != "" {
				t.Errorf("rights to change definitions (-want, +have):\n%s", diff)
			}
		})
	}
}
