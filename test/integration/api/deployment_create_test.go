// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// graph is the smallest deployment worth the name. Cases patch it.
const graph = `
apiVersion: nvidia.com/v1alpha1
kind: DynamoGraphDeployment
spec:
  services:
    Frontend: {componentType: frontend}
    Worker: {componentType: worker}
`

var _ = Describe("DynamoGraphDeployment", func() {
	type creation struct {
		patch string
		want  refusal
	}
	DescribeTable("is accepted, or refused at the field at fault, when it is created", func(ctx SpecContext, tt creation) {
		_, err := create(ctx, deployments, object(graph, named(), tt.patch), metav1.DryRunAll)
		Expect(err).To(tt.want)
	}, suite.Entries(map[string]creation{
		"two services":    {},
		"empty service":   {patch: `spec: {services: {Worker: {}}}`},
		"null in a field": {patch: `spec: {services: {Worker: {subComponentType: }}}`},

		"no spec":           {patch: `spec: null`, want: refusal{"spec", "Required value"}},
		"no services field": {patch: `spec: {services: null}`, want: refusal{"spec.services", "Required value"}},
		"empty services": {
			patch: `spec: {services: {Frontend: null, Worker: null}}`,
			want:  refusal{"spec.services", "spec.services must have at least one service"},
		},
		"25 services": {patch: "spec: {services: {" + numbered(23) + "}}"},
		"26 services": {
			patch: "spec: {services: {" + numbered(24) + "}}",
			want:  refusal{"spec.services", "must have at most 25 items"},
		},
		"service name of 63 characters": {patch: `spec: {services: {` + strings.Repeat("a", 63) + `: {}}}`},
		"service name of 64 characters": {
			patch: `spec: {services: {` + strings.Repeat("a", 64) + `: {}}}`,
			want:  refusal{"spec.services", "service names must have 1 to 63 letters"},
		},
		"service name of 10,000 characters": {
			patch: `spec: {services: {? ` + strings.Repeat("a", 10_000) + ` : {}}}`,
			want:  refusal{"spec.services", "service names must have 1 to 63 letters"},
		},
		"empty service name": {
			patch: `spec: {services: {"": {}}}`,
			want:  refusal{"spec.services", "service names must have 1 to 63 letters"},
		},
		"service name with a blank": {
			patch: `spec: {services: {"my worker": {}}}`,
			want:  refusal{"spec.services", "service names must have 1 to 63 letters"},
		},
		"service name with dot and digit":     {patch: `spec: {services: {Qwen2.5-7b: {}}}`},
		"service names that differ in case":   {patch: `spec: {services: {worker: {}}}`, want: refusal{"spec.services", "service names must be unique in lower case"}},
		"service names that differ in . or -": {patch: `spec: {services: {a.b: {}, a-b: {}}}`, want: refusal{"spec.services", "service names must be unique in lower case"}},
		"deployment name of 10,000 characters": {
			patch: `metadata: {name: ` + strings.Repeat("a", 10_000) + `}`,
			want:  refusal{"metadata.name", "must be no more than 253"},
		},

		"replicas 0":                {patch: `spec: {services: {Worker: {replicas: 0}}}`},
		"replicas beyond the bound": {patch: `spec: {services: {Worker: {replicas: 65537}}}`, want: refusal{"spec.services.Worker.replicas", "should be less than or equal to 65536"}},
		"nodeCount beyond the bound": {
			patch: `spec: {services: {Worker: {multinode: {nodeCount: 4097}}}}`,
			want:  refusal{"spec.services.Worker.multinode.nodeCount", "should be less than or equal to 4096"},
		},
		"replicas -1": {patch: `spec: {services: {Worker: {replicas: -1}}}`, want: refusal{"spec.services[Worker].replicas", "must be non-negative"}},
		"nodeCount 2": {patch: `spec: {services: {Worker: {multinode: {nodeCount: 2}}}}`},
		"nodeCount 1": {
			patch: `spec: {services: {Worker: {multinode: {nodeCount: 1}}}}`,
			want:  refusal{"spec.services.Worker.multinode.nodeCount", "should be greater than or equal to 2"},
		},
		"minAvailable 0": {
			patch: `spec: {services: {Worker: {minAvailable: 0}}}`,
			want:  refusal{"spec.services.Worker.minAvailable", "should be greater than or equal to 1"},
		},
		"componentType of one's own": {patch: `spec: {services: {Worker: {componentType: main, subComponentType: prefill}}}`},
		"componentType that no label takes": {
			patch: `spec: {services: {Worker: {componentType: "my worker"}}}`,
			want:  refusal{"spec.services.Worker.componentType", "should match"},
		},
		"subComponentType that no label takes": {
			patch: `spec: {services: {Worker: {subComponentType: "-"}}}`,
			want:  refusal{"spec.services.Worker.subComponentType", "should match"},
		},
		"backendFramework trtllm":  {patch: `spec: {backendFramework: trtllm}`},
		"backendFramework unknown": {patch: `spec: {backendFramework: tgi}`, want: refusal{"spec.backendFramework", `Unsupported value: "tgi"`}},

		"unknown field":           {patch: `spec: {replicas: 1}`, want: refusal{"", `unknown field "spec.replicas"`}},
		"unknown field of a pod":  {patch: `spec: {services: {Worker: {extraPodSpec: {imagePullSecret: x}}}}`, want: refusal{"", `unknown field "spec.services.Worker.extraPodSpec.imagePullSecret"`}},
		"labels of a claim":       {patch: pod(`{volumes: [{name: scratch, ephemeral: {volumeClaimTemplate: {metadata: {labels: {a: b}}, spec: {}}}}]}`)},
		"container without name":  {patch: pod(`{containers: [{image: x}]}`), want: refusal{"spec.services.Worker.extraPodSpec.containers[0].name", "Required value"}},
		"main container, no name": {patch: pod(`{mainContainer: {image: x}}`)},
		"what pods may repeat":    {patch: pod(`{imagePullSecrets: [{}, {}], hostAliases: [{ip: 10.0.0.1}, {ip: 10.0.0.1}], mainContainer: {env: [{name: A}, {name: A}], ports: [{containerPort: 1}, {containerPort: 1}], resources: {claims: [{name: a, request: b}, {name: a, request: c}]}}}`)},
	}))

	type parts struct {
		worker string
		pvcs   string
		want   refusal
	}
	DescribeTable("is accepted, or refused at the field at fault, by the parts of a service and its claims", func(ctx SpecContext, tt parts) {
		obj := object(graph, named(), "spec: {services: {Worker: {"+tt.worker+"}}}", "spec: {pvcs: "+tt.pvcs+"}")
		_, err := create(ctx, deployments, obj, metav1.DryRunAll)
		Expect(err).To(tt.want)
	}, suite.Entries(map[string]parts{
		"shared memory sized":       {worker: `sharedMemory: {size: 16Gi}`},
		"shared memory off":         {worker: `sharedMemory: {disabled: true}`},
		"shared memory 0":           {worker: `sharedMemory: {size: "0"}`, want: refusal{"spec.services[Worker].sharedMemory.size", "sharedMemory.size is required when disabled is false"}},
		"shared memory 0, a number": {worker: `sharedMemory: {size: 0}`, want: refusal{"spec.services[Worker].sharedMemory.size", "sharedMemory.size is required when disabled is false"}},
		"shared memory unsized":     {worker: `sharedMemory: {}`, want: refusal{"spec.services[Worker].sharedMemory.size", "sharedMemory.size is required when disabled is false"}},
		"shared memory off, 0":      {worker: `sharedMemory: {disabled: true, size: "0"}`},
		"shared memory off, number": {worker: `sharedMemory: {disabled: true, size: 0}`},
		"shared memory both":        {worker: `sharedMemory: {disabled: true, size: 1Gi}`, want: refusal{"spec.services[Worker].sharedMemory.size", "sharedMemory.size must not be set when sharedMemory.disabled is true"}},
		"shared memory abc":         {worker: `sharedMemory: {size: abc}`, want: refusal{"spec.services.Worker.sharedMemory.size", "should match"}},
		"gpu as string":             {worker: `resources: {limits: {gpu: "8", cpu: 500m, memory: 1.5Gi, custom: {rdma/ib: "1", ephemeral-storage: 2Gi}}}`},
		"gpu as number":             {worker: `resources: {limits: {gpu: 8}}`, want: refusal{"spec.services.Worker.resources.limits.gpu", "must be of type string"}},
		"container limit abc":       {worker: `extraPodSpec: {mainContainer: {resources: {limits: {cpu: abc}}}}`, want: refusal{"spec.services.Worker.extraPodSpec.mainContainer.resources.limits.cpu", "should match"}},
		"ingress off":               {worker: `ingress: {enabled: false}`},
		"ingress with host":         {worker: `ingress: {enabled: true, host: llm}`},
		"ingress without host":      {worker: `ingress: {enabled: true}`, want: refusal{"spec.services[Worker].ingress.host", "host is required when ingress is enabled"}},
		"ingress, empty host":       {worker: `ingress: {enabled: true, host: ""}`, want: refusal{"spec.services[Worker].ingress.host", "host is required when ingress is enabled"}},
		"mount":                     {worker: `volumeMounts: [{name: models, mountPoint: /models}]`},
		"mount of a cache":          {worker: `volumeMounts: [{name: cache, useAsCompilationCache: true}]`},
		"mount nowhere":             {worker: `volumeMounts: [{name: models}]`, want: refusal{"spec.services[Worker].volumeMounts[0].mountPoint", "mountPoint is required when useAsCompilationCache is false"}},
		"sidecar without image":     {worker: `frontendSidecar: {args: [x]}`, want: refusal{"spec.services.Worker.frontendSidecar.image", "Required value"}},
		"mount without name":        {worker: `volumeMounts: [{name: "", mountPoint: /m}]`, want: refusal{"spec.services.Worker.volumeMounts[0].name", "should be at least 1 chars long"}},
		"101 mounts":                {worker: "volumeMounts: [" + mounts(101) + "]", want: refusal{"spec.services.Worker.volumeMounts", "must have at most 100 items"}},
		"sidecar, empty image":      {worker: `frontendSidecar: {image: ""}`, want: refusal{"spec.services.Worker.frontendSidecar.image", "should be at least 1 chars long"}},
		"model, empty name":         {worker: `modelRef: {name: ""}`, want: refusal{"spec.services.Worker.modelRef.name", "should be at least 1 chars long"}},
		"model without name":        {worker: `modelRef: {revision: x}`, want: refusal{"spec.services.Worker.modelRef.name", "Required value"}},
		"failover unknown mode":     {worker: `failover: {enabled: true, mode: interCluster}`, want: refusal{"spec.services.Worker.failover.mode", "Unsupported value"}},
		"failover, no shadow":       {worker: `failover: {enabled: true, numShadows: 0}`, want: refusal{"spec.services.Worker.failover.numShadows", "should be greater than or equal to 1"}},
		"gpu memory unknown mode":   {worker: `gpuMemoryService: {enabled: true, mode: interCluster}`, want: refusal{"spec.services.Worker.gpuMemoryService.mode", "Unsupported value"}},
		"removed field pvc":         {worker: `pvc: {name: models, create: false, mountPoint: /models}`},

		"claim that exists":     {pvcs: `[{name: models, create: false}, {name: cache}]`},
		"claim to create":       {pvcs: `[{name: models, create: true, size: 1Ti, storageClass: fast, volumeAccessMode: ReadWriteMany}]`},
		"claim without name":    {pvcs: `[{create: false}]`, want: refusal{"spec.pvcs[0].name", "Required value"}},
		"claim, empty name":     {pvcs: `[{name: ""}]`, want: refusal{"spec.pvcs[0].name", "should be at least 1 chars long"}},
		"claim twice":           {pvcs: `[{name: models}, {name: models}]`, want: refusal{"spec.pvcs[1]", "Duplicate value"}},
		"claim, no size":        {pvcs: `[{name: m, create: true, storageClass: fast, volumeAccessMode: ReadWriteMany}]`, want: refusal{"spec.pvcs[0]", "When create is true, size, storageClass, and volumeAccessMode are required"}},
		"claim, no class":       {pvcs: `[{name: m, create: true, size: 1Ti, storageClass: "", volumeAccessMode: ReadWriteMany}]`, want: refusal{"spec.pvcs[0]", "When create is true, size, storageClass, and volumeAccessMode are required"}},
		"claim, no access mode": {pvcs: `[{name: m, create: true, size: 1Ti, storageClass: fast}]`, want: refusal{"spec.pvcs[0]", "When create is true, size, storageClass, and volumeAccessMode are required"}},
		"claim, unknown mode":   {pvcs: `[{name: m, volumeAccessMode: RWX}]`, want: refusal{"spec.pvcs[0].volumeAccessMode", "Unsupported value"}},
		"claim, size abc":       {pvcs: `[{name: m, size: abc}]`, want: refusal{"spec.pvcs[0].size", "should match"}},
		"101 claims":            {pvcs: "[" + claims(101) + "]", want: refusal{"spec.pvcs", "must have at most 100 items"}},
	}))

	for _, side := range []string{"requests", "limits"} {
		DescribeTable("is refused with "+side+" that are no quantities", func(ctx SpecContext, field, amount string) {
			obj := object(graph, named(), "spec: {services: {Worker: {resources: {"+side+": {"+amount+"}}}}}")
			_, err := create(ctx, deployments, obj, metav1.DryRunAll)
			Expect(err).To(refusal{"spec.services.Worker.resources." + side + "." + field, "should match"})
		},
			Entry(nil, SpecTimeout(suite.Timeout()), "cpu", "cpu: abc"),
			Entry(nil, SpecTimeout(suite.Timeout()), "memory", "memory: 16GB"),
			Entry(nil, SpecTimeout(suite.Timeout()), "gpu", "gpu: eight"),
			Entry(nil, SpecTimeout(suite.Timeout()), "custom.rdma/ib", "custom: {rdma/ib: abc}"),
			EntryDescription("%[1]s"),
		)
	}
})

func pod(spec string) string { return `spec: {services: {Worker: {extraPodSpec: ` + spec + `}}}` }

func numbered(count int) string {
	names := make([]string, count)
	for i := range names {
		names[i] = fmt.Sprintf("s%d: {}", i)
	}
	return strings.Join(names, ", ")
}

func claims(count int) string {
	names := make([]string, count)
	for i := range names {
		names[i] = fmt.Sprintf("{name: c%d}", i)
	}
	return strings.Join(names, ", ")
}

func mounts(count int) string { return strings.ReplaceAll(claims(count), "}", ", mountPoint: /m}") }
