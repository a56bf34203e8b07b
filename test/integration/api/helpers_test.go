// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	controllerclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/trellis-k8s/trellis/test/testutil/manifest"
)

// refusal matches the error of a request that the API server refuses, by what its user reads: the field at fault and the words. The zero refusal
// matches that it accepts.
type refusal struct {
	path string
	text string
}

// Match implements GomegaMatcher.
func (r refusal) Match(actual any) (bool, error) {
	err, isError := actual.(error)
	if actual != nil && !isError {
		return false, fmt.Errorf("a refusal matches errors, not %T", actual)
	}
	if r == (refusal{}) || err == nil {
		return r == refusal{} && err == nil, nil
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Code < 400 || status.Status().Code > 499 {
		return false, nil
	}
	return strings.Contains(err.Error(), r.path+":") && strings.Contains(err.Error(), r.text), nil
}

// FailureMessage implements GomegaMatcher.
func (r refusal) FailureMessage(actual any) string {
	switch {
	case r == refusal{}:
		return fmt.Sprintf("refused: %v", actual)
	case actual == nil:
		return fmt.Sprintf("accepted, want a refusal at %s: %s", r.path, r.text)
	}
	return fmt.Sprintf("want a refusal (4xx) at %s: %s\ngot %.2000s", r.path, r.text, actual)
}

// NegatedFailureMessage implements GomegaMatcher.
func (r refusal) NegatedFailureMessage(actual any) string {
	return fmt.Sprintf("want no refusal at %s: %s\ngot %.2000s", r.path, r.text, actual)
}

// object reads a manifest and lays patches over it, each a YAML merge patch (null removes).
func object(text string, patches ...string) *unstructured.Unstructured {
	GinkgoHelper()
	content := manifest.Parse(GinkgoTB(), text)
	for _, patch := range patches {
		merge(content, manifest.Parse(GinkgoTB(), patch))
	}
	return &unstructured.Unstructured{Object: content}
}

// named is the patch that gives an object the spec's name.
func named() string { return "metadata: {name: " + namespace + "}" }

// merge is RFC 7386.
func merge(into, patch map[string]any) {
	for key, value := range patch {
		changes, isMap := value.(map[string]any)
		old, wasMap := into[key].(map[string]any)
		switch {
		case value == nil:
			delete(into, key)
		case isMap && wasMap:
			merge(old, changes)
		default:
			into[key] = value
		}
	}
}

func objectsOf(of schema.GroupVersionResource) dynamic.ResourceInterface {
	if of == topologies {
		return client.Resource(of)
	}
	return client.Resource(of).Namespace(namespace)
}

// create asks the API server as a strict client does: unknown fields are errors.
func create(ctx context.Context, of schema.GroupVersionResource, obj *unstructured.Unstructured, dryRun ...string) (*unstructured.Unstructured, error) {
	return objectsOf(of).Create(ctx, obj, metav1.CreateOptions{DryRun: dryRun, FieldValidation: metav1.FieldValidationStrict})
}

func mustCreate(ctx context.Context, of schema.GroupVersionResource, obj *unstructured.Unstructured) *unstructured.Unstructured {
	GinkgoHelper()
	created, err := create(ctx, of, obj)
	Expect(err).NotTo(HaveOccurred())
	return created
}

// patch sends a YAML merge patch.
func patch(ctx context.Context, of schema.GroupVersionResource, name, change string, subresources ...string) (*unstructured.Unstructured, error) {
	GinkgoHelper()
	return patchThrough(ctx, objectsOf(of), name, change, subresources...)
}

func mustPatch(ctx context.Context, of schema.GroupVersionResource, name, change string, subresources ...string) *unstructured.Unstructured {
	GinkgoHelper()
	patched, err := patch(ctx, of, name, change, subresources...)
	Expect(err).NotTo(HaveOccurred())
	return patched
}

func patchThrough(ctx context.Context, objects dynamic.ResourceInterface, name, change string, subresources ...string) (*unstructured.Unstructured, error) {
	GinkgoHelper()
	raw, err := yaml.YAMLToJSON([]byte(change))
	Expect(err).NotTo(HaveOccurred())
	return objects.Patch(ctx, name, types.MergePatchType, raw, metav1.PatchOptions{FieldValidation: metav1.FieldValidationStrict}, subresources...)
}

// readDefinition reads a definition of config/crd and lays patches over it. When the spec ends, the definition is deleted from the API server.
func readDefinition(file string, patches ...string) *unstructured.Unstructured {
	GinkgoHelper()
	text, err := os.ReadFile(filepath.Join(basesDir, file))
	Expect(err).NotTo(HaveOccurred())
	crd := object(string(text), patches...)
	DeferCleanup(func(ctx SpecContext) {
		err := client.Resource(definitions).Delete(ctx, crd.GetName(), metav1.DeleteOptions{})
		Expect(controllerclient.IgnoreNotFound(err)).To(Succeed())
	})
	return crd
}

func install(ctx context.Context, crd *unstructured.Unstructured) {
	GinkgoHelper()
	_, err := client.Resource(definitions).Apply(ctx, crd.GetName(), crd, metav1.ApplyOptions{FieldManager: "test", Force: true})
	Expect(err).NotTo(HaveOccurred())
}

// storeOlder stores an object under a definition without rules, and returns when the API server applies the rules.
func storeOlder(ctx SpecContext, strict *unstructured.Unstructured, objects dynamic.ResourceInterface, old *unstructured.Unstructured) {
	GinkgoHelper()
	loose := strict.DeepCopy()
	dropRules(loose.Object["spec"])
	install(ctx, loose)
	Eventually(ctx, func(ctx SpecContext) error {
		_, err := objects.Create(ctx, old, metav1.CreateOptions{})
		return err
	}).Should(Succeed(), "the definition without rules is served")
	install(ctx, strict)
	another := old.DeepCopy()
	another.SetName("another")
	Eventually(ctx, func(ctx SpecContext) error {
		_, err := objects.Create(ctx, another, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}).Should(MatchError(apierrors.IsInvalid, "IsInvalid"), "the rules are applied")
}

// dropRules takes away everything that refuses a value for other than its type.
func dropRules(value any) {
	switch v := value.(type) {
	case map[string]any:
		if keys, isMapList := v["x-kubernetes-list-map-keys"].([]any); isMapList && slices.Contains(keys, any("name")) {
			v["x-kubernetes-list-type"] = "atomic"
			delete(v, "x-kubernetes-list-map-keys")
		}
		for _, rule := range []string{"x-kubernetes-validations", "pattern", "minimum", "maximum", "minLength", "maxLength", "maxItems", "maxProperties", "enum"} {
			if _, isProperty := v[rule].(map[string]any); !isProperty {
				delete(v, rule)
			}
		}
		for _, child := range v {
			dropRules(child)
		}
	case []any:
		for _, child := range v {
			dropRules(child)
		}
	}
}
