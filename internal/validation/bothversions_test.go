// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// inBoth is one Worker, as the two versions write it, and what admission says of it in each: "" for a Worker that is admitted.
type inBoth struct{ alpha, saysAlpha, beta, saysBeta string }

const (
	mainAlpha = `extraPodSpec: {mainContainer: {image: "registry.example/runtime:1.4.0"}}`
	mainBeta  = `podTemplate: {spec: {containers: [{name: main, image: "registry.example/runtime:1.4.0"}]}}`
	gpuAlpha  = mainAlpha + `, componentType: worker, resources: {limits: {gpu: "1"}}`
	gpuBeta   = `type: worker, podTemplate: {spec: {containers: [{name: main, image: i, resources: {limits: {nvidia.com/gpu: 1}}}]}}`
	worker0   = "spec.components[0]."
	workerOf  = "spec.services[Worker]."
)

// both has the same text in both versions after paths that differ.
func both(alpha, alphaPath, beta, betaPath, text string) inBoth {
	return inBoth{alpha, workerOf + alphaPath + ": " + text, beta, worker0 + betaPath + ": " + text}
}

func admitted(alpha, beta string) inBoth { return inBoth{alpha: alpha, beta: beta} }

// manifest is a deployment of one Worker in a version; spec is what else its spec says.
func manifest(t *testing.T, version, spec, worker string) Written {
	t.Helper()
	form := `{apiVersion: nvidia.com/v1alpha1, kind: DynamoGraphDeployment, metadata: {name: llm}, spec: {%s, services: {Worker: {%s}}}}`
	if version == "v1beta1" {
		form = `{apiVersion: nvidia.com/v1beta1, kind: DynamoGraphDeployment, metadata: {name: llm}, spec: {%s, components: [{name: Worker, %s}]}}`
	}
	raw, err := yaml.YAMLToJSON(fmt.Appendf(nil, form, spec, worker))
	if err != nil {
		t.Fatal(err)
	}
	w, err := FromJSON(raw)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func saysOfCreate(t *testing.T, version, spec, worker string) string {
	t.Helper()
	w := manifest(t, version, spec, worker)
	return strings.Join(textsIn(GraphCreate(w), version), "\n")
}

// TestBothVersions: the rules of new objects, each in both versions, with the path in the version the user wrote.
func TestBothVersions(t *testing.T) {
	const vllm = "backendFramework: vllm"
	for _, cases := range []map[string]inBoth{pickerCases, deviceCases, checkpointCases, otherCases, roleCases} {
		for name, tc := range cases {
			for version, c := range map[string][2]string{"v1alpha1": {tc.alpha, tc.saysAlpha}, "v1beta1": {tc.beta, tc.saysBeta}} {
				if c[0] == "" {
					continue
				}
				if diff := cmp.Diff(c[1], saysOfCreate(t, version, vllm, c[0])); diff != "" {
					t.Errorf("%s in %s (-want +got):\n%s", name, version, diff)
				}
			}
		}
	}
}

func pickerAlpha(image, more string) string {
	return `componentType: epp, extraPodSpec: {mainContainer: {image: "registry.example/` + image + `"}}` + more
}

func pickerBeta(image, more string) string {
	return `type: epp, podTemplate: {spec: {containers: [{name: main, image: "registry.example/` + image + `"}]}}` + more
}

// picker is one case of an endpoint picker: the same words in both versions but for the type's field.
func picker(image, more, path, text string) inBoth {
	alpha, beta := pickerAlpha(image, more), pickerBeta(image, more)
	if text == "" {
		return admitted(alpha, beta)
	}
	c := both(alpha, path, beta, path, text)
	c.saysBeta = strings.ReplaceAll(c.saysBeta, "componentType", "type")
	return c
}

var pickerCases = func() map[string]inBoth {
	const (
		config   = `, eppConfig: {configMapRef: {name: c, key: k}}`
		needed   = "Required value: eppConfig with exactly one of configMapRef and config is required for componentType epp with a runtime before 1.5.0"
		unknown  = needed + "; for a later one, whose image tag does not say so, set runtimeVersionOverride"
		unwanted = "Forbidden: the endpoint picker of runtime 1.5.0 and later reads no eppConfig; remove it, or set runtimeVersionOverride if the runtime is older than its image tag says"
		several  = "Invalid value: 2: componentType epp must have exactly 1 replica (or 0 to stop it)"
	)
	return map[string]inBoth{
		"an early picker with its configuration":             picker("epp:1.4.1", config, "", ""),
		"an early picker without":                            picker("epp:1.4.1", "", "eppConfig", needed),
		"a picker of the runtime":                            picker("dynamo:1.5.0", "", "", ""),
		"a picker of the runtime, several replicas":          picker("dynamo:1.6.2", ", replicas: 3", "", ""),
		"a picker of the runtime with configuration":         picker("dynamo:1.5.0", config, "eppConfig", unwanted),
		"a candidate of it with configuration":               picker("dynamo:1.5.0-rc.2", config, "eppConfig", unwanted),
		"a digest beside the tag":                            picker("dynamo:1.5.0@sha256:aa", config, "eppConfig", unwanted),
		"a tag that is no version":                           picker("dynamo:latest", "", "eppConfig", unknown),
		"a tag that is no version, with configuration":       picker("dynamo:latest", config, "", ""),
		"a digest alone":                                     picker("dynamo@sha256:aa", "", "eppConfig", unknown),
		"a registry with a port and no tag":                  picker("r:5000/dynamo", "", "eppConfig", unknown),
		"an override of 1.5.0":                               picker("dynamo:mine", ", runtimeVersionOverride: 1.5.0", "", ""),
		"an override of 1.5.0 with configuration":            picker("dynamo:mine", ", runtimeVersionOverride: 1.5.0"+config, "eppConfig", unwanted),
		"an override that is older than the tag":             picker("dynamo:1.5.0", ", runtimeVersionOverride: 1.4.0"+config, "", ""),
		"an early picker of two replicas":                    picker("epp:1.4.1", ", replicas: 2"+config, "replicas", several),
		"an early picker that is stopped":                    picker("epp:1.4.1", ", replicas: 0"+config, "", ""),
		"a ConfigMap without a name":                         picker("epp:1.4.1", `, eppConfig: {configMapRef: {key: k}}`, "eppConfig.configMapRef.name", "Required value: name the ConfigMap"),
		"an early image of another component":                admitted(mainAlpha+", componentType: frontend", mainBeta+", type: frontend"),
		"a configuration of another type, which 1.4 ignores": {alpha: mainAlpha + ", componentType: worker" + config},
	}
}()

// device is one case of gpuMemoryService and failover, in alpha's words: enabled, and with another letter in the modes.
func device(alpha, beta, path, text string) inBoth {
	alpha, beta = gpuAlpha+", "+alpha, gpuBeta+", experimental: {"+beta+"}"
	if text == "" {
		return admitted(alpha, beta)
	}
	c := both(alpha, path, beta, "experimental."+path, text)
	c.saysBeta = strings.NewReplacer("intraPod", "IntraPod", "interPod", "InterPod").Replace(c.saysBeta)
	return c
}

var deviceCases = map[string]inBoth{
	"devices shared in the pod":   device("gpuMemoryService: {enabled: true}", "gpuMemoryService: {mode: IntraPod}", "", ""),
	"devices shared between pods": device("gpuMemoryService: {enabled: true, mode: interPod}", "gpuMemoryService: {mode: InterPod}", "", ""),
	"devices of a frontend": {
		alpha:     strings.Replace(gpuAlpha, "worker", "frontend", 1) + ", gpuMemoryService: {enabled: true}",
		saysAlpha: workerOf + "gpuMemoryService: Forbidden: is for workers only; set componentType worker, or remove it",
		beta:      strings.Replace(gpuBeta, "worker", "frontend", 1) + ", experimental: {gpuMemoryService: {}}",
		saysBeta:  worker0 + "experimental.gpuMemoryService: Forbidden: is for workers only; set type worker, or remove it",
	},
	"devices without a GPU": {
		alpha:     mainAlpha + ", componentType: worker, gpuMemoryService: {enabled: true}",
		saysAlpha: workerOf + "gpuMemoryService: Forbidden: needs a GPU; set resources.limits.gpu to 1 or more, or remove it",
		beta:      mainBeta + ", type: decode, experimental: {gpuMemoryService: {}}",
		saysBeta:  worker0 + "experimental.gpuMemoryService: Forbidden: needs a GPU; set the limit of nvidia.com/gpu to 1 or more, or remove it",
	},
	"a GPU of another kind": {alpha: mainAlpha + `, componentType: worker, resources: {limits: {gpu: "1", gpuType: gpu.example.com/x}}, gpuMemoryService: {enabled: true}`},
	"a client that is no container": device("gpuMemoryService: {enabled: true, extraClientContainers: [side]}", "gpuMemoryService: {mode: IntraPod, extraClientContainers: [side]}",
		"gpuMemoryService.extraClientContainers[0]", `Not found: "side": name a container of its pods`),
	"a client twice": device("gpuMemoryService: {enabled: true, extraClientContainers: [main, main]}", "gpuMemoryService: {mode: IntraPod, extraClientContainers: [main, main]}",
		"gpuMemoryService.extraClientContainers[1]", `Duplicate value: "main": name each container once`),
	"clients of another pod": device("gpuMemoryService: {enabled: true, mode: interPod, extraClientContainers: [main]}", "gpuMemoryService: {mode: InterPod, extraClientContainers: [main]}",
		"gpuMemoryService.extraClientContainers", "Forbidden: is for mode intraPod only; remove it, or change the mode"),
	"client pods": device("gpuMemoryService: {enabled: true, mode: interPod, extraClientPods: [{name: a}]}", "gpuMemoryService: {mode: InterPod, extraClientPods: [{name: a}]}",
		"gpuMemoryService.extraClientPods", "Forbidden: is reserved and does nothing yet; remove it"),
	"failover without shared devices": device("failover: {enabled: true, mode: interPod}", "failover: {mode: InterPod}",
		"failover", "Forbidden: needs gpuMemoryService of the same mode; add it, or remove failover"),
	"failover of another mode": device("gpuMemoryService: {enabled: true}, failover: {enabled: true, mode: interPod}", "gpuMemoryService: {}, failover: {mode: InterPod}",
		"failover.mode", `Invalid value: "interPod": must be the mode of gpuMemoryService`),
	"failover between pods": device("gpuMemoryService: {enabled: true, mode: interPod}, failover: {enabled: true, mode: interPod, numShadows: 3}",
		"gpuMemoryService: {mode: InterPod}, failover: {mode: InterPod}", "", ""),
	"failover that is off": {alpha: gpuAlpha + ", failover: {enabled: false, mode: intraPod, numShadows: 3}"},
	"clients of what is off": {
		alpha: gpuAlpha + ", gpuMemoryService: {enabled: false, extraClientContainers: [A_b]}",
		saysAlpha: workerOf + `gpuMemoryService.extraClientContainers[0]: Invalid value: "A_b": not the name of a container: a lowercase RFC 1123 label must consist of ` +
			`lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')`,
	},
}

var checkpointCases = map[string]inBoth{
	"a checkpoint":                       device("checkpoint: {enabled: true, identity: {model: m}}", "checkpoint: {enabled: true}", "", ""),
	"a checkpoint beside shared devices": device("checkpoint: {enabled: true}, gpuMemoryService: {enabled: true}", "checkpoint: {enabled: true}, gpuMemoryService: {}", "", ""),
	"a checkpoint of devices between pods": device("checkpoint: {enabled: true}, gpuMemoryService: {enabled: true, mode: interPod}", "checkpoint: {enabled: true}, gpuMemoryService: {mode: InterPod}",
		"checkpoint", "Forbidden: cannot be combined with gpuMemoryService of mode interPod; remove one of the two"),
	"a checkpoint that exists": device("checkpoint: {enabled: true, checkpointRef: a, startupPolicy: WaitForCheckpoint}",
		"checkpoint: {enabled: true, checkpointRef: a, startupPolicy: WaitForCheckpoint}", "", ""),
	"a job beside a checkpoint that exists": device("checkpoint: {enabled: true, checkpointRef: a, job: {}}", "checkpoint: {enabled: true, checkpointRef: a, job: {}}",
		"checkpoint.job", "Forbidden: cannot be set together with checkpointRef: nothing is to be created; remove one of the two"),
	"a job whose clients share nothing": device("checkpoint: {enabled: true, job: {gmsClientContainers: [main]}}", "checkpoint: {enabled: true, job: {gmsClientContainers: [main]}}",
		"checkpoint.job.gmsClientContainers", "Forbidden: needs gpuMemoryService of mode intraPod; add it, or remove the list"),
	"a checkpoint of a planner": {
		beta:     mainBeta + ", type: planner, experimental: {checkpoint: {enabled: true}}",
		saysBeta: worker0 + "experimental.checkpoint: Forbidden: is for workers only; remove it",
	},
	"a checkpoint that is off": {beta: mainBeta + ", type: planner, experimental: {checkpoint: {enabled: false}}"},
}

var otherCases = map[string]inBoth{
	"a frontend of several nodes": {
		alpha:     mainAlpha + ", componentType: frontend, multinode: {nodeCount: 2}",
		saysAlpha: workerOf + "multinode: Invalid value: 2: a replica of componentType frontend cannot span several nodes; remove multinode and raise replicas, or set componentType worker",
		beta:      mainBeta + ", type: frontend, multinode: {nodeCount: 2}",
		saysBeta:  worker0 + "multinode: Invalid value: 2: a replica of type frontend cannot span several nodes; remove multinode and raise replicas, or set type worker",
	},
	"several nodes of what has no type": admitted(mainAlpha+", multinode: {nodeCount: 2}", mainBeta+", multinode: {nodeCount: 2}"),
	"negative shared memory": {
		alpha:     mainAlpha + ", sharedMemory: {size: -1Gi}",
		saysAlpha: workerOf + `sharedMemory.size: Invalid value: "-1Gi": must be more than 0`,
		beta:      mainBeta + ", sharedMemorySize: -1Gi",
		saysBeta:  worker0 + `sharedMemorySize: Invalid value: "-1Gi": must not be negative; 0 turns shared memory off`,
	},
	"an executor that is none": {
		alpha:     mainAlpha + ", annotations: {nvidia.com/vllm-distributed-executor-backend: dask}",
		saysAlpha: workerOf + `annotations[nvidia.com/vllm-distributed-executor-backend]: Unsupported value: "dask": must be "mp" or "ray"`,
		beta:      strings.Replace(mainBeta, "{spec", "{metadata: {annotations: {nvidia.com/vllm-distributed-executor-backend: dask}}, spec", 1),
		saysBeta:  worker0 + `podTemplate.metadata.annotations[nvidia.com/vllm-distributed-executor-backend]: Unsupported value: "dask": must be "mp" or "ray"`,
	},
	"an executor that is none, in metadata of v1alpha1": {alpha: mainAlpha + ", extraPodMetadata: {annotations: {nvidia.com/vllm-distributed-executor-backend: dask}}"},
	"an override of Grove":                              admitted(mainAlpha+", "+groveOverride, mainBeta+", "+groveOverride),
	"an override of another version": both(mainAlpha+", "+strings.Replace(groveOverride, "v1alpha1", "v2", 1), "providerOverride.apiVersion",
		mainBeta+", "+strings.Replace(groveOverride, "v1alpha1", "v2", 1), "providerOverride.apiVersion", `Invalid value: "grove.io/v2": must be grove.io/v1alpha1`),
	"an override of another object": both(mainAlpha+", "+strings.Replace(groveOverride, "value", "target: PodCliqueSet, value", 1), "providerOverride.target",
		mainBeta+", "+strings.Replace(groveOverride, "value", "target: PodCliqueSet, value", 1), "providerOverride.target",
		`Invalid value: "PodCliqueSet": must be PodCliqueTemplateSpec here; correct it, or leave it out`),
	"an override of other fields": both(mainAlpha+", "+strings.Replace(groveOverride, "{topology", "{replicas: 3, topology", 1), "providerOverride.value",
		mainBeta+", "+strings.Replace(groveOverride, "{topology", "{replicas: 3, topology", 1), "providerOverride.value",
		"Invalid value: must hold topologyConstraint and nothing else, with topologyName and pack {required, preferred}"),
	"an override of no form": {alpha: mainAlpha + ", providerOverride: {kind: x}"},
	"a version that is none": {alpha: mainAlpha + ", runtimeVersionOverride: latest"},
}

const groveOverride = `providerOverride: {apiVersion: grove.io/v1alpha1, value: {topologyConstraint: {pack: {required: rack}}}}`
