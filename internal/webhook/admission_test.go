// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"errors"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// graph reads a manifest. {topology} in it stands for the ClusterTopology of the spec that runs.
func graph(topology, manifest string) *unstructured.Unstructured {
	GinkgoHelper()
	object := &unstructured.Unstructured{}
	Expect(yaml.Unmarshal([]byte(strings.ReplaceAll(manifest, "{topology}", topology)), &object.Object)).To(Succeed())
	object.SetAPIVersion("nvidia.com/v1alpha1")
	object.SetKind("DynamoGraphDeployment")
	object.SetNamespace("default")
	withImages(object)
	return object
}

// withImages gives an image to each main container that has none.
func withImages(object *unstructured.Unstructured) {
	services, _, _ := unstructured.NestedMap(object.Object, "spec", "services")
	for name, value := range services {
		if _, written := value.(map[string]any); !written {
			continue
		}
		path := []string{"spec", "services", name, "extraPodSpec", "mainContainer", "image"}
		if _, named, err := unstructured.NestedString(object.Object, path...); !named && err == nil {
			Expect(unstructured.SetNestedField(object.Object, "i", path...)).To(Succeed())
		}
	}
}

const packed = `
metadata: {name: llm}
spec:
  topologyConstraint: {topologyProfile: "{topology}", packDomain: zone}
  services:
    Frontend: {componentType: frontend}
    Worker:
      replicas: 2
      multinode: {nodeCount: 4}
      topologyConstraint: {packDomain: rack}
      extraPodSpec:
        tolerations: [{operator: Exists}]
        mainContainer: {image: i, resources: {limits: {cpu: 1000m}}}
`

// created makes an object and removes it after the spec.
func created(object client.Object, opts ...client.CreateOption) {
	GinkgoHelper()
	Expect(admin.Create(ctx, object, opts...)).To(Succeed())
	DeferCleanup(func() { Expect(client.IgnoreNotFound(admin.Delete(ctx, object))).To(Succeed()) })
}

// badRequest matches an answer that blames the caller.
func badRequest(texts ...string) types.GomegaMatcher {
	matchers := []types.GomegaMatcher{WithTransform(func(err error) int32 {
		var status apierrors.APIStatus
		if !errors.As(err, &status) {
			return 0
		}
		return status.Status().Code
	}, And(BeNumerically(">=", 400), BeNumerically("<", 500)))}
	for _, text := range texts {
		matchers = append(matchers, MatchError(ContainSubstring(text)))
	}
	return And(matchers...)
}

var _ = Describe("creating a deployment", func() {
	BeforeEach(func() { created(topology("gb200")) })

	It("fills in replicas and changes nothing else", func() {
		object := graph("gb200", packed)
		want := object.DeepCopy().Object["spec"].(map[string]any)
		created(object)
		want["services"].(map[string]any)["Frontend"].(map[string]any)["replicas"] = int64(1)
		Expect(fmt.Sprint(object.Object["spec"])).To(Equal(fmt.Sprint(want)))
	})

	DescribeTable("refuses what is wrong, with the path and the fix", func(manifest string, texts ...string) {
		Expect(admin.Create(ctx, graph("gb200", manifest))).To(badRequest(texts...))
	},
		Entry("unknown profile", strings.ReplaceAll(packed, "{topology}", "nowhere"),
			"spec.topologyConstraint.topologyProfile", `ClusterTopology not found`, `"nowhere"`, "kubectl get clustertopologies"),
		Entry("unknown domain", strings.Replace(packed, "packDomain: rack", "packDomain: chassis", 1),
			"spec.services[Worker].topologyConstraint.packDomain", "packDomain not found in cluster topology", `does not exist in ClusterTopology "gb200"`, "[zone, block, rack, host]"),
		Entry("unknown preferred domain", strings.Replace(packed, "packDomain: rack", "packDomain: rack, preferredPackDomain: chassis", 1),
			"spec.services[Worker].topologyConstraint.preferredPackDomain", `does not exist in ClusterTopology "gb200"`),
		Entry("broader service", strings.NewReplacer("packDomain: zone", "packDomain: rack", "packDomain: rack", "packDomain: zone").Replace(packed),
			"spec.services[Worker].topologyConstraint.packDomain", "hierarchy violation", `is broader than spec-level "rack"`),
		Entry("profile on a service", strings.Replace(packed, "packDomain: rack", "packDomain: rack, topologyProfile: gb200", 1),
			"topologyProfile", "must not be set on a service"),
		Entry("no profile", strings.Replace(packed, `topologyProfile: "{topology}", `, "", 1), "topologyProfile is required"),
		Entry("no services", "metadata: {name: llm}\nspec: {services: {}}", "spec.services must have at least one service"),
		Entry("negative replicas", strings.Replace(packed, "replicas: 2", "replicas: -1", 1), "replicas must be non-negative"),
		Entry("huge replicas", strings.Replace(packed, "replicas: 2", "replicas: 3000000000", 1), "replicas"),
		Entry("nodeCount 1", strings.Replace(packed, "nodeCount: 4", "nodeCount: 1", 1), "nodeCount"),
		Entry("name of 10,000 characters", strings.Replace(packed, "name: llm", "name: "+strings.Repeat("a", 10000), 1), "metadata.name"),
		Entry("resource abc", strings.Replace(packed, "replicas: 2", `resources: {limits: {gpu: abc}}`, 1), "resources.limits.gpu"),
		Entry("custom resource abc", strings.Replace(packed, "replicas: 2", `resources: {limits: {custom: {rdma/ib: abc}}}`, 1), "rdma/ib", "abc"),
		Entry("half a GPU", strings.Replace(packed, "replicas: 2", `resources: {limits: {gpu: "0.5"}}`, 1),
			"spec.services[Worker].resources.limits.gpu", "must be a whole number"),
		Entry("request above limit", strings.Replace(packed, "replicas: 2", `resources: {limits: {cpu: "1"}, requests: {cpu: "2"}}`, 1),
			"spec.services[Worker].resources.requests.cpu", "must not be more than the limit"),
		Entry("shared memory abc", strings.Replace(packed, "replicas: 2", `sharedMemory: {size: abc}`, 1), "spec.services.Worker.sharedMemory.size"),
		Entry("container resource abc", strings.Replace(packed, "cpu: 1000m", "cpu: abc", 1), "extraPodSpec.mainContainer.resources.limits.cpu"),
		Entry("two services in one name", strings.Replace(packed, "Frontend:", "worker:", 1), "spec.services", "in lower case"),
		Entry("a Service's name twice", strings.Replace(packed, "Frontend:", "worker-pods:", 1), "spec.services[worker-pods]", "rename one of the two services"),
		Entry("26 services", "metadata: {name: llm}\nspec: {services: {"+numbered(26)+"}}", "spec.services", "25"),
		Entry("services of a list", "metadata: {name: llm}\nspec: {services: [a]}", "spec.services"),
		Entry("a main container without an image", strings.Replace(packed, "image: i, ", `image: "", `, 1),
			"spec.services[Worker].extraPodSpec.mainContainer.image", "name the image of the main container"),
		Entry("a restart", strings.Replace(packed, "  services:", "  restart: {id: a}\n  services:", 1), "spec.restart", "must be unset on create", "apply the object without it, then set it"),
		Entry("a power limit that is none", strings.Replace(packed, "replicas: 2", `extraPodMetadata: {annotations: {dynamo.nvidia.com/gpu-power-limit: "0"}}`, 1),
			"spec.services[Worker].annotations[dynamo.nvidia.com/gpu-power-limit]", "must be a whole number of watts"),
		Entry("a transfer policy with an unknown topology", strings.Replace(packed, "  services:", "  experimental: {kvTransferPolicy: {clusterTopologyName: nowhere, domain: rack}}\n  services:", 1),
			"spec.experimental.kvTransferPolicy.clusterTopologyName", "ClusterTopology not found"),
		Entry("both forms of constraint", strings.Replace(packed, "{name: llm}", "{name: llm, annotations: {kai.scheduler/topology: gb200}}", 1), "remove one of the two forms"),
	)

	It("refuses a service name of 10,000 characters without repeating it", func() {
		object := graph("gb200", packed)
		object.Object["spec"].(map[string]any)["services"].(map[string]any)[strings.Repeat("a", 10000)] = map[string]any{}
		err := admin.Create(ctx, object)
		Expect(err).To(badRequest("spec.services", "63"))
		Expect(len(err.Error())).To(BeNumerically("<", 2000))
	})

	It("tells the client what is accepted and without effect", func() {
		lines := warned.during(func() {
			created(graph("gb200", strings.NewReplacer(
				"spec:", "spec:\n  experimental: {a: b}", "frontend}", "frontend, dynamoNamespace: x}", "replicas: 2", "dynamoNamespace: why", "packDomain: rack", "packDomain: host",
			).Replace(packed)))
		})
		Expect(lines).To(ConsistOf(
			ContainSubstring("packDomain holds each replica of a multinode service on one host"),
			And(HavePrefix("spec.services[*].dynamoNamespace is deprecated and ignored"), HaveSuffix("(Frontend, Worker)")),
			Equal("spec.experimental is accepted but not acted on"),
		))
	})

	It("asks as well, and keeps nothing, on a dry run", func() {
		good := graph("gb200", packed)
		Expect(admin.Create(ctx, good, client.DryRunAll)).To(Succeed())
		Expect(apierrors.IsNotFound(admin.Get(ctx, client.ObjectKeyFromObject(good), good))).To(BeTrue())
		Expect(admin.Create(ctx, graph("nowhere", packed), client.DryRunAll)).To(badRequest("ClusterTopology not found"))
	})

	It("takes generated names", func() {
		generated := strings.Replace(packed, "name: llm", "generateName: llm-", 1)
		object := graph("gb200", generated)
		created(object)
		Expect(object.GetName()).To(HavePrefix("llm-"))
		Expect(admin.Create(ctx, graph("nowhere", generated))).To(badRequest("ClusterTopology not found"))
	})

	It("survives a service of null", func() {
		object := graph("gb200", strings.Replace(packed, "{componentType: frontend}", "null", 1))
		if err := admin.Create(ctx, object); err != nil {
			Expect(err).To(badRequest("Frontend"))
			return
		}
		Expect(admin.Delete(ctx, object)).To(Succeed())
	})

	It("takes long names", func() {
		created(graph("gb200", strings.NewReplacer("name: llm", "name: "+strings.Repeat("a", 200), "Worker:", strings.Repeat("w", 63)+":").Replace(packed)))
	})

	It("takes server-side apply, whose repetition changes nothing", func() {
		apply := func() string {
			object := graph("gb200", packed)
			Expect(admin.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("user"))).To(Succeed())
			Expect(admin.Get(ctx, client.ObjectKeyFromObject(object), object)).To(Succeed())
			return object.GetResourceVersion()
		}
		first := apply()
		DeferCleanup(func() { Expect(admin.Delete(ctx, graph("gb200", packed))).To(Succeed()) })
		Expect(apply()).To(Equal(first))
	})
})

// numbered is n empty services.
func numbered(n int) string {
	services := make([]string, n)
	for i := range services {
		services[i] = fmt.Sprintf("s%d: {}", i)
	}
	return strings.Join(services, ", ")
}
