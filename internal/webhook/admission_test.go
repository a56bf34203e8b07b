// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// newServerWithTopology is a server with the ClusterTopology that packed names.
func newServerWithTopology(t *testing.T) *server {
	t.Helper()
	s := newServer(t)
	s.create(topology("gb200"))
	return s
}

// packedBut is packed with one text in place of another.
func packedBut(old, updated string) string {
	return strings.Replace(packed, old, updated, 1)
}

func TestCreateFillsInReplicasAndNothingElse(t *testing.T) {
	s := newServerWithTopology(t)
	object := readDeployment(t, "gb200", packed)
	want := object.DeepCopy().Object["spec"].(map[string]any)
	want["services"].(map[string]any)["Frontend"].(map[string]any)["replicas"] = int64(1)
	s.create(object)
	if diff := cmp.Diff(want, object.Object["spec"]); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
}

// What is wrong is refused with its path and with what to do.
func TestCreateIsRefused(t *testing.T) {
	tests := map[string]struct {
		manifest string
		want     []string
	}{
		"unknown profile": {strings.ReplaceAll(packed, "{topology}", "nowhere"),
			[]string{"spec.topologyConstraint.topologyProfile", `ClusterTopology not found`, `"nowhere"`, "kubectl get clustertopologies"}},
		"unknown domain": {packedBut("packDomain: rack", "packDomain: chassis"),
			[]string{"spec.services[Worker].topologyConstraint.packDomain", "packDomain not found in cluster topology", `does not exist in ClusterTopology "gb200"`, "[zone, block, rack, host]"}},
		"unknown preferred domain": {packedBut("packDomain: rack", "packDomain: rack, preferredPackDomain: chassis"),
			[]string{"spec.services[Worker].topologyConstraint.preferredPackDomain", `does not exist in ClusterTopology "gb200"`}},
		"broader service": {strings.NewReplacer("packDomain: zone", "packDomain: rack", "packDomain: rack", "packDomain: zone").Replace(packed),
			[]string{"spec.services[Worker].topologyConstraint.packDomain", "hierarchy violation", `is broader than spec-level "rack"`}},
		"profile on a service":      {packedBut("packDomain: rack", "packDomain: rack, topologyProfile: gb200"), []string{"topologyProfile", "must not be set on a service"}},
		"no profile":                {packedBut(`topologyProfile: "{topology}", `, ""), []string{"topologyProfile is required"}},
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
	newServerWithTopology(t)
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			s.wantRefused(s.tryCreate(readDeployment(t, "gb200", tc.manifest)), tc.want...)
		})
	}
}

func TestCreateDoesNotRepeatALongServiceName(t *testing.T) {
	s := newServerWithTopology(t)
	object := readDeployment(t, "gb200", packed)
	object.Object["spec"].(map[string]any)["services"].(map[string]any)[strings.Repeat("a", 10000)] = map[string]any{}
	err := s.tryCreate(object)
	s.wantRefused(err, "spec.services", "63")
	if err != nil && len(err.Error()) >= 2000 {
		t.Errorf("the refusal has %d characters", len(err.Error()))
	}
}

func TestCreateWarnsOfWhatHasNoEffect(t *testing.T) {
	s := newServerWithTopology(t)
	object := readDeployment(t, "gb200", strings.NewReplacer(
		"spec:", "spec:\n  experimental: {a: b}", "frontend}", "frontend, dynamoNamespace: x}", "replicas: 2", "dynamoNamespace: why", "packDomain: rack", "packDomain: host",
	).Replace(packed))
	s.wantWarnings(func() error { return s.tryCreate(object) },
		"packDomain holds each replica of a multinode service on one host; use rack or block for services that span nodes (Worker)",
		"spec.services[*].dynamoNamespace is deprecated and ignored: the Dynamo namespace is <namespace>-<name> of the DynamoGraphDeployment; remove it (Frontend, Worker)",
		"spec.experimental is accepted but not acted on",
	)
}

// How replicas are replaced is Grove's to say under Grove: the API server warns of it, in the words of the version that the user writes.
func TestCreateWarnsOfUpdatesUnderGrove(t *testing.T) {
	s := newServerWithTopology(t)
	const annotations = "name: llm, annotations: {trellis.dev/provider: PROVIDER, nvidia.com/deployment-strategy: Recreate, nvidia.com/deployment-rolling-update-max-surge: \"1\"}"
	for provider, want := range map[string][]string{
		"Gates": nil,
		"Grove": {"metadata.annotations[*] is accepted but not acted on by the provider Grove (nvidia.com/deployment-strategy, nvidia.com/deployment-rolling-update-max-surge)"},
	} {
		object := readDeployment(t, "gb200", packedBut("name: llm", strings.ReplaceAll(annotations, "PROVIDER", provider)))
		s.wantWarnings(func() error { return s.admin.Create(t.Context(), object, client.DryRunAll) }, want...)
	}
}

func TestCreateOnADryRunIsAdmittedAndNotKept(t *testing.T) {
	s := newServerWithTopology(t)
	good := readDeployment(t, "gb200", packed)
	s.must(s.admin.Create(t.Context(), good, client.DryRunAll))
	s.wantGone(good)
	s.wantRefused(s.admin.Create(t.Context(), readDeployment(t, "nowhere", packed), client.DryRunAll), "ClusterTopology not found")
}

func TestCreateWithAGeneratedName(t *testing.T) {
	s := newServerWithTopology(t)
	generated := packedBut("name: llm", "generateName: llm-")
	object := readDeployment(t, "gb200", generated)
	s.create(object)
	if name := object.GetName(); !strings.HasPrefix(name, "llm-") {
		t.Errorf("the name is %q", name)
	}
	s.wantRefused(s.tryCreate(readDeployment(t, "nowhere", generated)), "ClusterTopology not found")
}

func TestCreateSurvivesAServiceOfNull(t *testing.T) {
	s := newServerWithTopology(t)
	object := readDeployment(t, "gb200", packedBut("{componentType: frontend}", "null"))
	if err := s.tryCreate(object); err != nil {
		s.wantRefused(err, "Frontend")
	}
}

func TestCreateWithLongNames(t *testing.T) {
	s := newServerWithTopology(t)
	long := strings.NewReplacer("name: llm", "name: "+strings.Repeat("a", 200), "Worker:", strings.Repeat("w", 63)+":").Replace(packed)
	s.create(readDeployment(t, "gb200", long))
}

func TestRepeatedServerSideApplyChangesNothing(t *testing.T) {
	s := newServerWithTopology(t)
	s.deleteAfter(readDeployment(t, "gb200", packed))
	apply := func() string {
		t.Helper()
		object := readDeployment(t, "gb200", packed)
		s.must(s.admin.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("user")))
		s.get(object)
		return object.GetResourceVersion()
	}
	if first, second := apply(), apply(); first != second {
		t.Errorf("resourceVersion %s, then %s", first, second)
	}
}

// numbered is n empty services.
func numbered(n int) string {
	services := make([]string, n)
	for i := range services {
		services[i] = fmt.Sprintf("s%d: {}", i)
	}
	return strings.Join(services, ", ")
}
