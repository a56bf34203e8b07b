// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// projectResource is an entry of kubebuilder's PROJECT, as far as it can be compared with what the project ships.
type projectResource struct {
	Kind, Version, Group string
	Namespaced           bool
	Conversion           bool
	Spoke                []string
	Defaulting           bool
	Validation           bool
}

// PROJECT is read by the kubebuilder command. It lists every version of every definition, which one is the hub, and the webhooks.
func TestPROJECT(t *testing.T) {
	text, err := os.ReadFile("../PROJECT")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Repo      string
		Resources []struct {
			API                                struct{ Namespaced bool }
			Domain, Group, Kind, Path, Version string
			Webhooks                           struct {
				Conversion, Defaulting, Validation bool
				Spoke                              []string
			}
		}
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	got := map[string]projectResource{}
	for _, r := range file.Resources {
		one := projectResource{
			Kind: r.Kind, Version: r.Version, Group: r.Group + "." + r.Domain, Namespaced: r.API.Namespaced,
			Conversion: r.Webhooks.Conversion, Spoke: r.Webhooks.Spoke, Defaulting: r.Webhooks.Defaulting, Validation: r.Webhooks.Validation,
		}
		got[one.Kind+" "+one.Version] = one
		if dir, ours := strings.CutPrefix(r.Path, file.Repo); !ours {
			t.Errorf("the path of %s is not in %s: %s", r.Kind, file.Repo, r.Path)
		} else if _, err := os.Stat(filepath.Join("..", dir)); err != nil {
			t.Error(err)
		}
	}
	if diff := cmp.Diff(shippedResources(t), got); diff != "" {
		t.Errorf("PROJECT does not list what is shipped (-shipped +listed):\n%s", diff)
	}
}

// shippedResources are the versions of the definitions, with the webhooks of their hub.
func shippedResources(t *testing.T) map[string]projectResource {
	t.Helper()
	out, plural := map[string]projectResource{}, map[string]string{}
	files, err := filepath.Glob("../config/crd/bases/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no definitions: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.Unmarshal(text, &crd); err != nil {
			t.Fatal(err)
		}
		for _, v := range crd.Spec.Versions {
			one := projectResource{Kind: crd.Spec.Names.Kind, Version: v.Name, Group: crd.Spec.Group, Namespaced: crd.Spec.Scope == apiextensionsv1.NamespaceScoped}
			if v.Storage {
				plural[crd.Spec.Names.Plural] = one.Kind + " " + one.Version
				for _, other := range crd.Spec.Versions {
					if other.Name != v.Name {
						one.Conversion, one.Spoke = true, append(one.Spoke, other.Name)
					}
				}
			}
			out[one.Kind+" "+one.Version] = one
		}
	}
	markWebhooks(t, out, plural)
	return out
}

// markWebhooks notes which hubs have webhooks for defaults and for validation.
func markWebhooks(t *testing.T, out map[string]projectResource, hubs map[string]string) {
	t.Helper()
	text, err := os.ReadFile("../config/webhook/manifests.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, document := range bytes.Split(text, []byte("\n---\n")) {
		var one struct {
			Kind     string
			Webhooks []struct {
				Rules []admissionregistrationv1.RuleWithOperations
			}
		}
		if err := yaml.Unmarshal(document, &one); err != nil {
			t.Fatal(err)
		}
		for _, webhook := range one.Webhooks {
			var resources []string
			for _, rule := range webhook.Rules {
				resources = append(resources, rule.Resources...)
			}
			for _, resource := range resources {
				hub, known := hubs[resource]
				if !known {
					continue // a subresource
				}
				r := out[hub]
				r.Defaulting = r.Defaulting || one.Kind == "MutatingWebhookConfiguration"
				r.Validation = r.Validation || one.Kind == "ValidatingWebhookConfiguration"
				out[hub] = r
			}
		}
	}
}
