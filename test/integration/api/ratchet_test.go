// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"path/filepath"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
)

// outdated breaks about every rule that can be broken by an object which is there already.
const outdated = `
apiVersion: ratchet.example.com/v1alpha1
kind: DynamoGraphDeployment
metadata: {name: outdated, finalizers: [example.com/hold]}
spec:
  backendFramework: tgi
  topologyConstraint: {packDomain: Rack}
  pvcs: [{name: models}, {name: models}]
  restart: {id: ""}
  services:
    my worker:
      replicas: -1
      multinode: {nodeCount: 1}
      topologyConstraint: {topologyProfile: p}
      sharedMemory: {disabled: true, size: 1Gi}
      resources: {limits: {gpu: many}}
      ingress: {enabled: true}
      volumeMounts: [{name: models}]
    my_worker: {}
    MY_worker: {}
`

// An object from before a rule can still be labelled, scaled, reported on and deleted; only what is wrong must not be rewritten.
func TestObjectsOlderThanTheRules(t *testing.T) {
	strict := definition(t)
	loose := strict.DeepCopy()
	dropRules(loose.Object["spec"])
	ratchet := schema.GroupVersionResource{Group: "ratchet.example.com", Version: "v1alpha1", Resource: "dynamographdeployments"}
	objects := client.Resource(ratchet).Namespace(namespace)

	install(t, loose)
	obj := object(t, outdated)
	await(t, func(ctx context.Context) bool {
		_, err := objects.Create(ctx, obj, metav1.CreateOptions{})
		return err == nil
	})
	install(t, strict)
	obj.SetName("another")
	await(t, func(ctx context.Context) bool {
		_, err := objects.Create(ctx, obj, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err != nil
	})

	change := func(text string, subresources ...string) error {
		_, err := patchThrough(t, objects, "outdated", text, subresources...)
		return err
	}
	refusal{}.check(t, change(`metadata: {labels: {a: b}}`))
	refusal{}.check(t, change(deploymentStatus, "status"))
	refusal{}.check(t, change(`spec: {services: {my worker: {replicas: 3, resources: {limits: {cpu: "1"}}}}}`))
	refusal{"spec.services.my worker.resources.limits.memory", "should match"}.
		check(t, change(`spec: {services: {my worker: {resources: {limits: {memory: many}}}}}`))
	refusal{}.check(t, change(`metadata: {finalizers: null}`))
	refusal{}.check(t, objects.Delete(t.Context(), "outdated", metav1.DeleteOptions{}))
	_, err := objects.Get(t.Context(), "outdated", metav1.GetOptions{})
	if err == nil {
		t.Error("the object is still there")
	}
}

// definition is that of DynamoGraphDeployment in v1alpha1 alone, in a group of its own: nothing converts there.
func definition(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	crd := object(t, readFile(t, filepath.Join(basesDir, "nvidia.com_dynamographdeployments.yaml")),
		"metadata: {name: dynamographdeployments.ratchet.example.com}",
		"spec: {group: ratchet.example.com}")
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	versions = slices.DeleteFunc(versions, func(v any) bool { return v.(map[string]any)["name"] != "v1alpha1" })
	versions[0].(map[string]any)["storage"] = true
	if err := unstructured.SetNestedSlice(crd.Object, versions, "spec", "versions"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = client.Resource(definitions).Delete(context.Background(), crd.GetName(), metav1.DeleteOptions{})
	})
	return crd
}

func install(t *testing.T, crd *unstructured.Unstructured) {
	t.Helper()
	_, err := client.Resource(definitions).Apply(t.Context(), crd.GetName(), crd, metav1.ApplyOptions{FieldManager: "test", Force: true})
	if err != nil {
		t.Fatal(err)
	}
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

func await(t *testing.T, done func(ctx context.Context) bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, 20*time.Second, true, func(ctx context.Context) (bool, error) {
		return done(ctx), nil
	})
	if err != nil {
		t.Fatal("the changed definition has no effect after 20 seconds")
	}
}
