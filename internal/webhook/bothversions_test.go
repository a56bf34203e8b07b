// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// These go the whole way through the API server: schema, rules of the definitions, conversion, webhooks. What else the rules say is tested where
// they are.

const (
	alphaMain = `extraPodSpec: {mainContainer: {image: "r/runtime:1.4.0"}}`
	betaMain  = `podTemplate: {spec: {containers: [{name: main, image: "r/runtime:1.4.0"}]}}`
	atWorker  = "spec.services[Worker]."
	atFirst   = "spec.components[0]."
)

// oneWorker is a deployment of a Worker, in the version whose spec it has; graph is what else its spec says.
func oneWorker(version, graph, worker string) *unstructured.Unstructured {
	GinkgoHelper()
	form := `{apiVersion: nvidia.com/v1alpha1, spec: {%sservices: {Worker: {%s}}}}`
	if version == "v1beta1" {
		form = `{apiVersion: nvidia.com/v1beta1, spec: {%scomponents: [{name: Worker, %s}]}}`
	}
	object := &unstructured.Unstructured{}
	Expect(yaml.Unmarshal(fmt.Appendf(nil, form, graph, worker), &object.Object)).To(Succeed())
	object.SetKind("DynamoGraphDeployment")
	object.SetNamespace("default")
	object.SetName("both")
	return object
}

var _ = DescribeTable("a new deployment", func(version, graph, worker string, texts ...string) {
	object := oneWorker(version, graph, worker)
	DeferCleanup(func() { Expect(client.IgnoreNotFound(admin.Delete(ctx, object))).To(Succeed()) })
	if len(texts) == 0 {
		Expect(admin.Create(ctx, object)).To(Succeed())
		return
	}
	Expect(admin.Create(ctx, object)).To(badRequest(texts...))
},
	Entry("alpha", "v1alpha1", "", alphaMain),
	Entry("beta", "v1beta1", "", betaMain),
	Entry("a name with a dot", "v1beta1", "", betaMain+"}, {name: a.b, "+betaMain, "spec.components[1].name", "a component name must have 1 to 63"),
	Entry("a long name", "v1beta1", "", betaMain+`}, {name: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa, `+betaMain, "spec.components[1].name"),
	Entry("a name with a dot in v1alpha1", "v1alpha1", "", alphaMain+"}, a.b: {"+alphaMain),
	Entry("a frontend sidecar without a name", "v1beta1", "", betaMain+`, frontendSidecar: ""`, atFirst+"frontendSidecar"),
	Entry("a picker of the runtime", "v1beta1", "", `type: epp, podTemplate: {spec: {containers: [{name: main, image: "r/dynamo:1.5.0"}]}}`),
	Entry("a picker of the runtime in v1alpha1", "v1alpha1", "", `componentType: epp, extraPodSpec: {mainContainer: {image: "r/dynamo:1.5.0"}}`),
	Entry("an early picker", "v1alpha1", "", `componentType: epp, `+alphaMain, atWorker+"eppConfig", "runtime before 1.5.0"),
	Entry("configuration of a picker of the runtime", "v1beta1", "", `type: epp, runtimeVersionOverride: 1.5.0, eppConfig: {configMapRef: {name: c, key: k}}, `+betaMain,
		atFirst+"eppConfig", "reads no eppConfig; remove it"),
	Entry("devices without a GPU", "v1alpha1", "", `componentType: worker, gpuMemoryService: {enabled: true}, `+alphaMain, atWorker+"gpuMemoryService", "resources.limits.gpu"),
	Entry("devices without a GPU in v1beta1", "v1beta1", "", `type: worker, experimental: {gpuMemoryService: {}}, `+betaMain, atFirst+"experimental.gpuMemoryService", "limit of nvidia.com/gpu"),
	Entry("failover in the pod", "v1beta1", "", `type: worker, experimental: {failover: {}}, `+betaMain,
		"metadata.annotations[nvidia.com/dynamo-kube-discovery-mode]", atFirst+"experimental.failover", "needs gpuMemoryService"),
	Entry("a job beside a checkpoint", "v1alpha1", "", `checkpoint: {enabled: true, checkpointRef: a, job: {}}, `+alphaMain, atWorker+"checkpoint.job"),
	Entry("an override of Grove", "v1alpha1", "providerOverride: {apiVersion: grove.io/v1alpha1, value: {spec: {template: {topologyConstraint: {packDomain: rack}}}}}, ", alphaMain),
	Entry("an override of replicas", "v1beta1", "providerOverride: {apiVersion: grove.io/v1alpha1, value: {spec: {replicas: 2}}}, ", betaMain, "spec.providerOverride.value"),
	Entry("a transfer policy with two selectors", "v1alpha1", "experimental: {kvTransferPolicy: {labelKey: a/b, clusterTopologyName: c, domain: rack}}, ", alphaMain,
		"spec.experimental.kvTransferPolicy", "exactly one of labelKey or clusterTopologyName"),
	Entry("negative shared memory", "v1beta1", "", betaMain+", sharedMemorySize: -1Gi", atFirst+"sharedMemorySize"),
	Entry("a planner of several nodes", "v1alpha1", "", "componentType: planner, multinode: {nodeCount: 2}, "+alphaMain, atWorker+"multinode", "remove multinode"),
)

var _ = DescribeTable("an update", func(version, before, after string, texts ...string) {
	object := oneWorker(version, "", before)
	created(object)
	updated := oneWorker(version, "", after)
	updated.SetResourceVersion(object.GetResourceVersion())
	if len(texts) == 0 {
		Expect(admin.Update(ctx, updated)).To(Succeed())
		return
	}
	Expect(admin.Update(ctx, updated)).To(badRequest(texts...))
},
	Entry("removes the image", "v1beta1", betaMain, "podTemplate: {spec: {containers: [{name: main}]}}", atFirst+"podTemplate.spec.containers[main].image"),
	Entry("removes the image in v1alpha1", "v1alpha1", alphaMain, "replicas: 2", atWorker+"extraPodSpec.mainContainer.image"),
	Entry("leaves a minAvailable of 1 out", "v1beta1", betaMain+", minAvailable: 1", betaMain),
	Entry("leaves a minAvailable of 1 out in v1alpha1", "v1alpha1", alphaMain+", minAvailable: 1", alphaMain),
	Entry("leaves a minAvailable of 2 out", "v1beta1", betaMain+", replicas: 2, minAvailable: 2", betaMain+", replicas: 2", atFirst+"minAvailable", "is immutable"),
	Entry("changes a minAvailable of 1", "v1alpha1", alphaMain+", replicas: 2, minAvailable: 1", alphaMain+", replicas: 2, minAvailable: 2", atWorker+"minAvailable", "is immutable"),
	Entry("gives a picker the runtime's image and no configuration", "v1beta1", "type: epp, eppConfig: {configMapRef: {name: c, key: k}}, "+betaMain,
		`type: epp, podTemplate: {spec: {containers: [{name: main, image: "r/dynamo:1.5.0"}]}}`),
	Entry("gives a picker the runtime's image alone", "v1beta1", "type: epp, eppConfig: {configMapRef: {name: c, key: k}}, "+betaMain,
		`type: epp, eppConfig: {configMapRef: {name: c, key: k}}, podTemplate: {spec: {containers: [{name: main, image: "r/dynamo:1.5.0"}]}}`, atFirst+"eppConfig"),
)

var _ = It("a component whose name only v1alpha1 takes is changed through v1beta1", func() {
	object := oneWorker("v1alpha1", "", alphaMain+"}, a.b: {"+alphaMain)
	created(object)
	beta := deploymentOf("v1beta1", "both")
	Expect(admin.Get(ctx, client.ObjectKeyFromObject(object), beta)).To(Succeed())
	components, _, err := unstructured.NestedSlice(beta.Object, "spec", "components")
	Expect(err).NotTo(HaveOccurred())
	components[1].(map[string]any)["replicas"] = int64(3)
	Expect(unstructured.SetNestedSlice(beta.Object, components, "spec", "components")).To(Succeed())
	Expect(admin.Update(ctx, beta)).To(Succeed())
})
