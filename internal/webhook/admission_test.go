// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"fmt"
	"strings"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// newServerWithTopology is a server with the ClusterTopology that packed names.
func newServerWithTopology(ctx context.Context) *server {
	GinkgoHelper()
	s := newServer(ctx)
	s.create(topology("gb200"))
	return s
}

// packedBut is packed with one text in place of another.
func packedBut(old, updated string) string {
	return strings.Replace(packed, old, updated, 1)
}

var _ = Describe("A deployment that is created", func() {
	It("has its replicas filled in, and nothing else", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		s := newServerWithTopology(ctx)
		object := readDeployment("gb200", packed)
		want := object.DeepCopy().Object["spec"].(map[string]any)
		want["services"].(map[string]any)["Frontend"].(map[string]any)["replicas"] = int64(1)
		s.create(object)
		Expect(cmp.Diff(want, object.Object["spec"])).To(BeEmpty(), "spec (-want +got)")
	})

	type refusal struct {
		manifest string
		want     []string
	}
	tests := map[string]refusal{
		"unknown topology": {strings.ReplaceAll(packed, "{topology}", "nowhere"),
			[]string{"spec.topologyConstraint.topologyProfile", `ClusterTopology not found`, `"nowhere"`, "kubectl get clustertopologies"}},
		"unknown domain": {packedBut("packDomain: rack", "packDomain: chassis"),
			[]string{"spec.services[Worker].topologyConstraint.packDomain", "packDomain not found in cluster topology", `does not exist in ClusterTopology "gb200"`, "[zone, block, rack, host]"}},
		"unknown preferred domain": {packedBut("packDomain: rack", "packDomain: rack, preferredPackDomain: chassis"),
			[]string{"spec.services[Worker].topologyConstraint.preferredPackDomain", `does not exist in ClusterTopology "gb200"`}},
		"broader service": {strings.NewReplacer("packDomain: zone", "packDomain: rack", "packDomain: rack", "packDomain: zone").Replace(packed),
			[]string{"spec.services[Worker].topologyConstraint.packDomain", "hierarchy violation", `is broader than spec-level "rack"`}},
		"topology on a service":     {packedBut("packDomain: rack", "packDomain: rack, topologyProfile: gb200"), []string{"topologyProfile", "must not be set on a service"}},
		"no topology":               {packedBut(`topologyProfile: "{topology}", `, ""), []string{"topologyProfile is required"}},
		"no services":               {"metadata: {name: llm}\nspec: {services: {}}", []string{"spec.services must have at least one service"}},
		"negative replicas":         {packedBut("replicas: 2", "replicas: -1"), []string{"replicas must be non-negative"}},
		"huge replicas":             {packedBut("replicas: 2", "replicas: 3000000000"), []string{"replicas"}},
		"nodeCount 1":               {packedBut("nodeCount: 4", "nodeCount: 1"), []string{"nodeCount"}},
		"name of 10,000 characters": {packedBut("name: llm", "name: "+strings.Repeat("a", 10000)), []string{"metadata.name"}},
		"resource abc":              {packedBut("replicas: 2", `resources: {limits: {gpu: abc}}`), []string{"resources.limits.gpu"}},
		"custom resource abc":       {packedBut("replicas: 2", `resources: {limits: {custom: {rdma/ib: abc}}}`), []string{"rdma/ib", "abc"}},
		"half a GPU":                {packedBut("replicas: 2", `resources: {limits: {gpu: "0.5"}}`), []string{"spec.services[Worker].resources.limits.gpu", "must be a whole number"}},
		"request above limit": {packedBut("replicas: 2", `resources: {limits: {cpu: "1"}, requests: {cpu: "2"}}`),
			[]string{"spec.services[Worker].resources.requests.cpu", "must not be more than the limit"}},
		"shared memory abc":        {packedBut("replicas: 2", `sharedMemory: {size: abc}`), []string{"spec.services.Worker.sharedMemory.size"}},
		"container resource abc":   {packedBut("cpu: 1000m", "cpu: abc"), []string{"extraPodSpec.mainContainer.resources.limits.cpu"}},
		"two services in one name": {packedBut("Frontend:", "worker:"), []string{"spec.services", "in lower case"}},
		"a Service's name twice":   {packedBut("Frontend:", "worker-pods:"), []string{"spec.services[worker-pods]", "rename one of the two services"}},
		"26 services":              {"metadata: {name: llm}\nspec: {services: {" + numbered(26) + "}}", []string{"spec.services", "25"}},
		"services of a list":       {"metadata: {name: llm}\nspec: {services: [a]}", []string{"spec.services"}},
		"a main container without an image": {packedBut("image: i, ", `image: "", `),
			[]string{"spec.services[Worker].extraPodSpec.mainContainer.image", "name the image of the main container"}},
		"a restart": {packedBut("  services:", "  restart: {id: a}\n  services:"),
			[]string{"spec.restart", "must be unset on create", "apply the object without it, then set it"}},
		"a power limit that is none": {packedBut("replicas: 2", `extraPodMetadata: {annotations: {dynamo.nvidia.com/gpu-power-limit: "0"}}`),
			[]string{"spec.services[Worker].annotations[dynamo.nvidia.com/gpu-power-limit]", "must be a whole number of watts"}},
		"a transfer policy with an unknown topology": {packedBut("  services:", "  experimental: {kvTransferPolicy: {clusterTopologyName: nowhere, domain: rack}}\n  services:"),
			[]string{"spec.experimental.kvTransferPolicy.clusterTopologyName", "ClusterTopology not found"}},
		"both forms of constraint": {packedBut("{name: llm}", "{name: llm, annotations: {kai.scheduler/topology: gb200}}"), []string{"remove one of the two forms"}},
	}
	DescribeTable("is refused with the path of what is wrong and with what to do, for", func(ctx SpecContext, tc refusal) {
		s := newServerWithTopology(ctx)
		s.wantRefused(s.tryCreate(readDeployment("gb200", tc.manifest)), tc.want...)
	}, suite.Entries(tests, SpecTimeout(suite.Timeout())))

	It("is refused without a repetition of a long service name", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		s := newServerWithTopology(ctx)
		object := readDeployment("gb200", packed)
		object.Object["spec"].(map[string]any)["services"].(map[string]any)[strings.Repeat("a", 10000)] = map[string]any{}
		err := s.tryCreate(object)
		s.wantRefused(err, "spec.services", "63")
		Expect(len(err.Error())).To(BeNumerically("<", 2000), "characters of the refusal")
	})

	It("is warned of what has no effect", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		s := newServerWithTopology(ctx)
		object := readDeployment("gb200", strings.NewReplacer(
			"spec:", "spec:\n  experimental: {a: b}", "frontend}", "frontend, dynamoNamespace: x}", "replicas: 2", "dynamoNamespace: why", "packDomain: rack", "packDomain: host",
		).Replace(packed))
		s.wantWarnings(func() error { return s.tryCreate(object) },
			"packDomain holds each replica of a multinode service on one host; use rack or block for services that span nodes (Worker)",
			"spec.services[*].dynamoNamespace is deprecated and ignored: the Dynamo namespace is <namespace>-<name> of the DynamoGraphDeployment; remove it (Frontend, Worker)",
			"spec.experimental is accepted but not acted on",
		)
	})

	It("is warned that under Grove the replacement of replicas is up to Grove, in the words of the version that is written", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		s := newServerWithTopology(ctx)
		const annotations = "name: llm, annotations: {trellis.dev/provider: PROVIDER, nvidia.com/deployment-strategy: Recreate, nvidia.com/deployment-rolling-update-max-surge: \"1\"}"
		for provider, want := range map[string][]string{
			"Gates": nil,
			"Grove": {"metadata.annotations[*] is accepted but not acted on by the provider Grove (nvidia.com/deployment-strategy, nvidia.com/deployment-rolling-update-max-surge)"},
		} {
			object := readDeployment("gb200", packedBut("name: llm", strings.ReplaceAll(annotations, "PROVIDER", provider)))
			s.wantWarnings(func() error { return s.admin.Create(ctx, object, client.DryRunAll) }, want...)
		}
	})

	It("is warned that under Grove a transfer policy decides only where requests go", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		s := newServerWithTopology(ctx)
		for provider, want := range map[string][]string{
			"Gates": nil,
			"Grove": {"spec.experimental.kvTransferPolicy decides where requests go, and under the provider Grove not where replicas go"},
		} {
			object := readDeployment("gb200", strings.NewReplacer(
				"name: llm", "name: llm, annotations: {trellis.dev/provider: "+provider+"}",
				"spec:\n", "spec:\n  experimental: {kvTransferPolicy: {clusterTopologyName: gb200, domain: rack, enforcement: preferred, preferredWeight: 0.5}}\n",
			).Replace(packed))
			s.wantWarnings(func() error { return s.admin.Create(ctx, object, client.DryRunAll) }, want...)
		}
	})

	It("on a dry run is admitted and not kept", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		s := newServerWithTopology(ctx)
		good := readDeployment("gb200", packed)
		Expect(s.admin.Create(ctx, good, client.DryRunAll)).To(Succeed())
		s.wantGone(good)
		s.wantRefused(s.admin.Create(ctx, readDeployment("nowhere", packed), client.DryRunAll), "ClusterTopology not found")
	})

	It("may have a generated name", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		s := newServerWithTopology(ctx)
		generated := packedBut("name: llm", "generateName: llm-")
		object := readDeployment("gb200", generated)
		s.create(object)
		Expect(object.GetName()).To(HavePrefix("llm-"))
		s.wantRefused(s.tryCreate(readDeployment("nowhere", generated)), "ClusterTopology not found")
	})

	It("may have a service of null, or is refused with its name", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		s := newServerWithTopology(ctx)
		object := readDeployment("gb200", packedBut("{componentType: frontend}", "null"))
		if err := s.tryCreate(object); err != nil {
			s.wantRefused(err, "Frontend")
		}
	})

	It("may have long names", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		s := newServerWithTopology(ctx)
		long := strings.NewReplacer("name: llm", "name: "+strings.Repeat("a", 200), "Worker:", strings.Repeat("w", 63)+":").Replace(packed)
		s.create(readDeployment("gb200", long))
	})

	It("does not change when it is applied server-side again", SpecTimeout(suite.Timeout()), func(ctx SpecContext) {
		s := newServerWithTopology(ctx)
		s.deleteAfter(readDeployment("gb200", packed))
		apply := func() string {
			GinkgoHelper()
			object := readDeployment("gb200", packed)
			Expect(s.admin.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("user"))).To(Succeed())
			s.get(object)
			return object.GetResourceVersion()
		}
		first := apply()
		Expect(apply()).To(Equal(first), "resourceVersion")
	})
})

// numbered is n empty components.
func numbered(n int) string {
	components := make([]string, n)
	for i := range components {
		components[i] = fmt.Sprintf("s%d: {}", i)
	}
	return strings.Join(components, ", ")
}
