// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/test/testutil/manifest"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

var _ = Describe("A manifest of v1alpha1", func() {
	DescribeTable("applies unchanged", func(ctx SpecContext, obj *unstructured.Unstructured) {
		first := withoutRestart(obj)
		created, err := create(ctx, deployments, first)
		Expect(err).NotTo(HaveOccurred())
		Expect(losses("", first.Object, created.Object)).To(BeEmpty(), "what the API server dropped or changed")
		applied, err := objectsOf(deployments).Apply(ctx, obj.GetName(), obj, metav1.ApplyOptions{FieldManager: "test", Force: true, DryRun: []string{metav1.DryRunAll}})
		Expect(err).NotTo(HaveOccurred())
		Expect(losses("", obj.Object, applied.Object)).To(BeEmpty(), "what server-side apply dropped or changed")
		if obj.GetName() == "every-field" {
			return // it has both sources of an eppConfig, which no write of v1beta1 may
		}
		back := writtenBack(ctx, deployments, betaDeployments, obj.GetName())
		Expect(losses("", first.Object, back.Object)).To(BeEmpty(), "what a write as v1beta1 dropped or changed")
	}, suite.Entries(manifests("")))

	// What goes through the operator's types comes out whole, and the API server takes it.
	DescribeTable("loses nothing in the Go types", func(ctx SpecContext, obj *unstructured.Unstructured) {
		var typed nvidiav1alpha1.DynamoGraphDeployment
		Expect(json.Unmarshal(toJSON(obj.Object), &typed)).To(Succeed())
		encoded := object(string(toJSON(&typed)))
		Expect(losses("", obj.Object, encoded.Object)).To(BeEmpty(), "what Go dropped or changed")
		delete(encoded.Object, "status")
		_, err := create(ctx, deployments, withoutRestart(encoded), metav1.DryRunAll)
		Expect(err).NotTo(HaveOccurred())
	}, suite.Entries(manifests("")))

	It("is stored with the defaults of what it leaves out", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		obj := manifests("")["least.yaml/least"]
		mustCreate(ctx, deployments, withoutRestart(obj))
		created, err := objectsOf(deployments).Apply(ctx, obj.GetName(), obj, metav1.ApplyOptions{FieldManager: "test", Force: true})
		Expect(err).NotTo(HaveOccurred())
		want := manifest.Parse(GinkgoTB(), `
restart: {strategy: {type: Sequential}}
services:
  Frontend: {replicas: 1}
  Worker:
    replicas: 1
    multinode: {nodeCount: 2}
    gpuMemoryService: {mode: intraPod, deviceClassName: gpu.nvidia.com}
    failover: {mode: intraPod, numShadows: 1}`)
		Expect(losses(".spec", want, created.Object["spec"])).To(BeEmpty())
	})

	// The API server drops nulls from custom resources.
	It("keeps a service with nothing behind its name", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		obj := object(graph, named())
		obj.Object["spec"].(map[string]any)["services"].(map[string]any)["Planner"] = nil
		created, err := create(ctx, deployments, obj, metav1.DryRunAll)
		Expect(err).NotTo(HaveOccurred())
		replicas, found, _ := unstructured.NestedInt64(created.Object, "spec", "services", "Planner", "replicas")
		Expect(found).To(BeTrue(), "service Planner is lost: %v", created.Object["spec"])
		Expect(replicas).To(BeEquivalentTo(1))
	})
})

// It is taken as it is, stored, and read back in both versions; in its own with everything that was written.
var _ = Describe("A manifest of v1beta1", func() {
	DescribeTable("applies unchanged, and reads in both versions", func(ctx SpecContext, obj *unstructured.Unstructured) {
		_, err := create(ctx, betaDeployments, obj)
		Expect(err).NotTo(HaveOccurred())
		read, err := objectsOf(betaDeployments).Get(ctx, obj.GetName(), metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(losses("", obj.Object, read.Object)).To(BeEmpty(), "what there and back dropped or changed")

		alpha, err := objectsOf(deployments).Get(ctx, obj.GetName(), metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		components, _, _ := unstructured.NestedSlice(obj.Object, "spec", "components")
		services, _, _ := unstructured.NestedMap(alpha.Object, "spec", "services")
		Expect(services).To(HaveLen(len(components)))
		mustPatch(ctx, deployments, obj.GetName(), "status: {state: pending}", "status")
		back := writtenBack(ctx, betaDeployments, deployments, obj.GetName())
		Expect(losses("", obj.Object, back.Object)).To(BeEmpty(), "what a write as v1alpha1 dropped or changed")
	}, suite.Entries(manifests("v1beta1")))
})

// writtenBack reads a deployment in the other version, writes it as it was read, and returns it in its own: what the other version cannot hold, and
// nothing keeps, is lost.
func writtenBack(ctx SpecContext, own, other schema.GroupVersionResource, name string) *unstructured.Unstructured {
	GinkgoHelper()
	read, err := objectsOf(other).Get(ctx, name, metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	_, err = objectsOf(other).Update(ctx, read, metav1.UpdateOptions{})
	Expect(err).NotTo(HaveOccurred())
	back, err := objectsOf(own).Get(ctx, name, metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	return back
}

// manifests are our own of a version and, where they lie alongside the repository, those that users have today, by file and name. Those of v1alpha1
// are in no folder of their own.
func manifests(version string) map[string]*unstructured.Unstructured {
	found := map[string]*unstructured.Unstructured{}
	for _, dir := range []string{filepath.Join("testdata", version), filepath.Join(sharedDir, "manifests", version)} {
		files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
		if err != nil {
			panic(err) // specs are made of them: there is none yet that could fail
		}
		for _, file := range files {
			objects, err := deploymentsIn(file)
			if err != nil {
				panic(fmt.Errorf("%s: %w", file, err))
			}
			for _, obj := range objects {
				obj.SetNamespace("") // some are made for a namespace of their author's
				found[filepath.Base(file)+"/"+obj.GetName()] = obj
			}
		}
	}
	if len(found) == 0 {
		panic("there are no manifests of " + version)
	}
	return found
}

func deploymentsIn(file string) ([]*unstructured.Unstructured, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var found []*unstructured.Unstructured
	documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		obj := &unstructured.Unstructured{}
		err := documents.Decode(&obj.Object)
		if errors.Is(err, io.EOF) {
			return found, nil
		}
		if err != nil {
			return nil, err
		}
		if obj.Object == nil || obj.GetKind() != "DynamoGraphDeployment" {
			continue
		}
		if err := obj.UnmarshalJSON(toJSON(obj.Object)); err != nil { // with the number types of unstructured objects
			return nil, err
		}
		found = append(found, obj)
	}
}

// withoutRestart is a manifest as it may be created.
func withoutRestart(obj *unstructured.Unstructured) *unstructured.Unstructured {
	first := obj.DeepCopy()
	unstructured.RemoveNestedField(first.Object, "spec", "restart")
	return first
}

// losses lists what was written and is not there any more. Nulls mean nothing, nor do false and "" where the field is gone;
// quantities may be written otherwise.
func losses(path string, before, after any) []string {
	switch old := before.(type) {
	case nil:
		return nil
	case bool, string:
		if reflect.ValueOf(old).IsZero() && after == nil {
			return nil
		}
	case map[string]any:
		now, _ := after.(map[string]any)
		var all []string
		for key, value := range old {
			all = append(all, losses(path+"."+key, value, now[key])...)
		}
		return all
	case []any:
		now, _ := after.([]any)
		if len(now) != len(old) {
			return []string{fmt.Sprintf("%s: %d of %d entries", path, len(now), len(old))}
		}
		var all []string
		for i := range old {
			all = append(all, losses(fmt.Sprintf("%s[%d]", path, i), old[i], now[i])...)
		}
		return all
	}
	if reflect.DeepEqual(before, after) || sameQuantity(before, after) {
		return nil
	}
	return []string{fmt.Sprintf("%s: %v, now %v", path, before, after)}
}

func sameQuantity(a, b any) bool {
	first, err1 := resource.ParseQuantity(fmt.Sprint(a))
	second, err2 := resource.ParseQuantity(fmt.Sprint(b))
	return err1 == nil && err2 == nil && first.Cmp(second) == 0
}

func toJSON(value any) []byte {
	out, err := json.Marshal(value)
	if err != nil {
		panic(err) // a manifest, or a deployment
	}
	return out
}
