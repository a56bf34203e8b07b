// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"context"
	"fmt"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/test/testutil/manifest"
)

const (
	alpha, beta = "v1alpha1", "v1beta1"
	kindGraph   = "DynamoGraphDeployment"
	kindAdapter = "DynamoGraphDeploymentScalingAdapter"
	owner       = client.FieldOwner("team")
)

// rich are deployments without pods, by the version that they are written in. Each has values that the other version has in another place,
// or not at all.
var rich = map[string]string{
	alpha: `
apiVersion: nvidia.com/v1alpha1
kind: DynamoGraphDeployment
spec:
  backendFramework: vllm
  annotations: {example.com/of: all}
  envs: [{name: SHARED, value: "1"}]
  topologyConstraint: {topologyProfile: datacenter, packDomain: zone}
  services:
    Frontend:
      componentType: frontend
      replicas: 0
      dynamoNamespace: mine
      annotations: {example.com/of: service}
      labels: {example.com/of: service}
      ingress: {enabled: false, host: example.com}
      autoscaling: {enabled: false}
      extraPodMetadata: {annotations: {example.com/of: pods}, labels: {}}
      scalingAdapter: {}
      extraPodSpec: {mainContainer: {image: "example.com/frontend:1"}}
    Worker:
      componentType: worker
      subComponentType: decode
      replicas: 0
      multinode: {nodeCount: 2}
      topologyConstraint: {packDomain: rack}
      sharedMemory: {size: 0.5Gi}
      envFromSecret: token
      envs: [{name: A, value: own}, {name: SHARED, value: "2"}]
      resources: {limits: {gpu: "8", cpu: 1000m, custom: {rdma/ib: "1"}}, requests: {cpu: 500m}}
      livenessProbe: {httpGet: {path: /live, port: 9090}}
      volumeMounts: [{name: models, mountPoint: /models}]
      extraPodSpec:
        tolerations: []
        nodeSelector: {pool: none}
        mainContainer:
          name: engine
          image: "example.com/vllm:1"
          command: [python3, -m, dynamo.vllm]
          env: [{name: A, value: hidden}, {name: B, value: $(A)}]
          resources: {limits: {memory: 0.5Gi}}
`,
	beta: `
apiVersion: nvidia.com/v1beta1
kind: DynamoGraphDeployment
spec:
  backendFramework: vllm
  env: [{name: SHARED, value: "1"}]
  topologyConstraint: {clusterTopologyName: datacenter, packDomain: zone}
  components:
  - name: Worker
    type: decode
    replicas: 0
    minAvailable: 1
    sharedMemorySize: 0.5Gi
    compilationCache: {pvcName: cache}
    topologyConstraint: {packDomain: rack}
    multinode: {nodeCount: 2}
    podTemplate:
      metadata: {labels: {example.com/of: pods}, annotations: {}}
      spec:
        initContainers: []
        containers:
        - {name: side, image: "example.com/side:1", resources: {limits: {cpu: 1000m}}}
        - name: main
          image: "example.com/vllm:1"
          command: [python3, -m, dynamo.vllm]
          env: [{name: A, value: own}, {name: SHARED, value: "2"}]
          resources: {limits: {nvidia.com/gpu: 4, memory: 0.5Gi}, requests: {}}
  - name: Frontend
    type: frontend
    replicas: 0
    frontendSidecar: router
    podTemplate:
      spec:
        containers:
        - {name: main, image: "example.com/frontend:1"}
        - {name: router, image: "example.com/router:1", ports: [{name: http, containerPort: 9999}]}
`,
}

// newFields has a field that v0.2.0 does not know: roles.
const newFields = `
apiVersion: nvidia.com/v1alpha1
kind: DynamoGraphDeployment
spec:
  services:
    Worker:
      componentType: worker
      replicas: 0
      roles: [{name: leader, replicas: 1}, {name: worker, replicas: 1}]
      multinode: {nodeCount: 2}
      resources: {limits: {gpu: "8"}}
      extraPodSpec: {mainContainer: {image: "example.com/vllm:1"}}
`

// written are deployments with the specs that they have in the versions in which they were written.
type written struct {
	w *world
	// specs by name.
	specs    map[string]any
	versions map[string]string
}

// writes writes and reads deployments in both versions. Deployments with pods are read and written back.
func (w *world) writes(ctx SpecContext, prefix string, running ...string) *written {
	GinkgoHelper()
	objects := &written{w, map[string]any{}, map[string]string{}}
	for version, text := range rich {
		objects.create(ctx, prefix+"-"+version, text)
	}
	for name := range objects.specs {
		for i := range int64(6) {
			version := []string{alpha, beta}[i%2]
			objects.change(ctx, name, version, fmt.Sprintf("example.com/vllm:%d", 2+i))
			objects.replace(ctx, name, alpha)
			objects.replace(ctx, name, beta)
		}
		objects.apply(ctx, name)
	}
	for _, name := range running {
		for _, version := range []string{alpha, beta} {
			objects.specs[name], objects.versions[name] = w.read(ctx, kindGraph, version, name).Object["spec"], version
			objects.replace(ctx, name, alpha)
			objects.replace(ctx, name, beta)
		}
	}
	return objects
}

// create creates a deployment in the version of its manifest, and checks that nothing of it is missing in the answer.
func (o *written) create(ctx context.Context, name, text string) {
	GinkgoHelper()
	object := &unstructured.Unstructured{Object: manifest.Parse(GinkgoTB(), text)}
	object.SetNamespace(namespace)
	object.SetName(name)
	sent := runtime.DeepCopyJSON(object.Object)["spec"]
	Expect(o.w.c.Create(ctx, object, owner)).To(Succeed())
	Expect(missing(sent, object.Object["spec"], "spec")).To(BeEmpty(), "missing in the answer")
	o.specs[name], o.versions[name] = object.Object["spec"], object.GroupVersionKind().Version
	o.same(ctx)
}

// missing are the paths of values that another value lacks, or has otherwise.
func missing(want, have any, path string) (paths []string) {
	switch want := want.(type) {
	case map[string]any:
		have, _ := have.(map[string]any)
		for key, value := range want {
			paths = append(paths, missing(value, have[key], path+"."+key)...)
		}
		return paths
	case []any:
		have, _ := have.([]any)
		if len(have) != len(want) {
			return []string{fmt.Sprintf("%s: %v instead of %v", path, have, want)}
		}
		for i, value := range want {
			paths = append(paths, missing(value, have[i], fmt.Sprintf("%s[%d]", path, i))...)
		}
		return paths
	}
	if want != have {
		return []string{fmt.Sprintf("%s: %v instead of %v", path, have, want)}
	}
	return nil
}

// same checks that all deployments are as they were written, whichever version of the operator converts them.
func (o *written) same(ctx context.Context) {
	GinkgoHelper()
	for name, want := range o.specs {
		for range 4 {
			got := o.w.read(ctx, kindGraph, o.versions[name], name)
			Expect(got.Object["spec"]).To(Equal(want), "%s as %s", name, o.versions[name])
		}
	}
}

// change sets the image and a variable of the workers in a version.
func (o *written) change(ctx context.Context, name, version, image string) {
	GinkgoHelper()
	Eventually(func() error { // the operator may have written the status in the meantime
		object := o.w.read(ctx, kindGraph, version, name)
		edit(object.Object["spec"].(map[string]any), version, image)
		return o.w.c.Update(ctx, object, owner)
	}).WithContext(ctx).Should(Succeed(), "%s in %s", name, version)
	edit(o.specs[name].(map[string]any), o.versions[name], image)
	o.same(ctx)
}

// edit sets the image of the workers' main container, and the variable A to it, in the spec of a version.
func edit(spec map[string]any, version, image string) {
	GinkgoHelper()
	var container map[string]any
	var variables []any
	if version == alpha {
		worker := spec["services"].(map[string]any)["Worker"].(map[string]any)
		container = worker["extraPodSpec"].(map[string]any)["mainContainer"].(map[string]any)
		variables, _ = worker["envs"].([]any) // these take precedence
	} else {
		pod := named(spec["components"].([]any), "Worker")["podTemplate"].(map[string]any)["spec"].(map[string]any)
		container = pod["containers"].([]any)[0].(map[string]any)
		if containers := pod["containers"].([]any); len(containers) > 1 {
			container = named(containers, "main")
		}
	}
	container["image"] = image
	variable := named(variables, "A")
	if variable == nil {
		variable = named(container["env"].([]any), "A")
	}
	variable["value"] = image
}

// named is the element of a list with a name; nil for none.
func named(list []any, name string) map[string]any {
	for _, element := range list {
		if element := element.(map[string]any); element["name"] == name {
			return element
		}
	}
	return nil
}

// replace writes a deployment back as it is read in a version, as kubectl get and kubectl replace do. That changes nothing.
func (o *written) replace(ctx context.Context, name, version string) {
	GinkgoHelper()
	before := o.w.read(ctx, kindGraph, beta, name)
	Eventually(func() error { return o.w.c.Update(ctx, o.w.read(ctx, kindGraph, version, name)) }).WithContext(ctx).Should(Succeed())
	after := o.w.read(ctx, kindGraph, beta, name)
	Expect(after.Object["spec"]).To(Equal(before.Object["spec"]), "%s after it was replaced as %s", name, version)
	Expect(after.GetGeneration()).To(Equal(before.GetGeneration()), "%s after it was replaced as %s", name, version)
	o.same(ctx)
}

// apply applies a deployment in its version by server-side apply, and applies it again, which changes nothing.
func (o *written) apply(ctx context.Context, name string) {
	GinkgoHelper()
	object := func() *unstructured.Unstructured {
		object := &unstructured.Unstructured{Object: map[string]any{"spec": runtime.DeepCopyJSON(o.specs[name].(map[string]any))}}
		object.SetAPIVersion("nvidia.com/" + o.versions[name])
		object.SetKind(kindGraph)
		object.SetNamespace(namespace)
		object.SetName(name)
		return object
	}
	var generations []int64
	for range 4 {
		applied := client.ApplyConfigurationFromUnstructured(object())
		Expect(o.w.c.Apply(ctx, applied, client.FieldOwner("applier"), client.ForceOwnership)).To(Succeed())
		generations = append(generations, o.w.read(ctx, kindGraph, beta, name).GetGeneration())
		o.same(ctx)
	}
	Expect(slices.Compact(generations)).To(HaveLen(1), "the generations of %s: %v", name, generations)
}

// ofNew creates deployments with a field that the earlier version does not know. It returns what checks that they are as written, once the
// present version alone answers, and deletes them.
func (w *world) ofNew(ctx context.Context) (kept func()) {
	GinkgoHelper()
	var objects []*unstructured.Unstructured
	for i := range 4 {
		object := &unstructured.Unstructured{Object: manifest.Parse(GinkgoTB(), newFields)}
		object.SetNamespace(namespace)
		object.SetName(fmt.Sprintf("of-new-%d", i))
		Expect(w.c.Create(ctx, object)).To(Succeed())
		objects = append(objects, object)
	}
	return func() {
		GinkgoHelper()
		want := manifest.Parse(GinkgoTB(), newFields)["spec"]
		for _, object := range objects {
			got := w.read(ctx, kindGraph, alpha, object.GetName())
			Expect(missing(want, got.Object["spec"], "spec")).To(BeEmpty(), "missing in %s", object.GetName())
			Expect(w.c.Delete(ctx, object)).To(Succeed())
		}
	}
}

// read reads an object in a version.
func (w *world) read(ctx context.Context, kind, version, name string) *unstructured.Unstructured {
	GinkgoHelper()
	object := &unstructured.Unstructured{}
	object.SetAPIVersion("nvidia.com/" + version)
	object.SetKind(kind)
	Expect(w.c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, object)).To(Succeed(), "%s %s in %s", kind, name, version)
	return object
}

// adapt sets the replicas of the workers of a deployment by their scaling adapter, in a version.
func (w *world) adapt(ctx context.Context, version, name string, replicas int) {
	GinkgoHelper()
	adapter := w.read(ctx, kindAdapter, version, name+"-worker")
	patch := fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas)
	Expect(w.c.Patch(ctx, adapter, client.RawPatch(types.MergePatchType, []byte(patch)))).To(Succeed())
	for version, field := range map[string]string{alpha: "serviceName", beta: "componentName"} {
		ref := w.read(ctx, kindAdapter, version, name+"-worker").Object["spec"].(map[string]any)["dgdRef"]
		Expect(ref).To(HaveKeyWithValue(field, "Worker"), "the adapter of %s in %s", name, version)
	}
	w.wants[name] = 2*replicas + 1
}
