// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"fmt"
	"slices"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/test/testutil/manifest"
	"github.com/trellis-k8s/trellis/test/testutil/suite"
)

// oddLeaves are specs of v1alpha1 with services among which there is a Worker.
var oddLeaves = map[string]string{
	"a name with dots":                                `services: {Worker: {}, gpt.4.1: {componentType: worker}, a.B: {replicas: 3}}`,
	"unknown types":                                   `services: {Worker: {componentType: main, subComponentType: encode}, R: {componentType: router}, E: {componentType: ""}, P: {componentType: PLANNER}}`,
	"sub-types of other types":                        `services: {Worker: {componentType: worker, subComponentType: x}, F: {componentType: frontend, subComponentType: prefill}, D: {subComponentType: decode}}`,
	"prefill as a type":                               `services: {Worker: {componentType: prefill}, D: {componentType: decode, subComponentType: prefill}}`,
	"custom resources and a kind of GPU":              `services: {Worker: {resources: {requests: {custom: {rdma/ib: "1", ephemeral-storage: 2Gi}}, limits: {gpu: "8", gpuType: gpu.intel.com/xe, custom: {rdma/ib: "1"}}}}}`,
	"a kind of GPU without a number":                  `services: {Worker: {resources: {limits: {gpuType: gpu.intel.com/xe}}}}`,
	"odd quantities":                                  `services: {Worker: {resources: {requests: {cpu: 1000m, memory: "1024Mi"}, limits: {cpu: "2.0", memory: 1073741824k, gpu: "08"}}, sharedMemory: {size: 0.5Gi}}}`,
	"empty resources":                                 `services: {Worker: {resources: {}}, A: {resources: {requests: {}, limits: {custom: {}}, claims: []}}}`,
	"shared memory off, with a size of 0":             `services: {Worker: {sharedMemory: {disabled: true, size: "0"}}}`,
	"shared memory off, with a size that is a number": `services: {Worker: {sharedMemory: {disabled: true, size: 0}}}`,
	"shared memory off":                               `services: {Worker: {sharedMemory: {disabled: true}}, B: {sharedMemory: {disabled: false, size: 8Gi}}, C: {sharedMemory: {size: 8192Mi}}}`,
	"empty maps and lists of the deployment":          `{annotations: {}, labels: {}, envs: [], pvcs: [], services: {Worker: {}}}`,
	"empty maps and lists of a service":               `services: {Worker: {annotations: {}, labels: {}, envs: [], volumeMounts: [], envFromSecret: "", extraPodMetadata: {annotations: {}, labels: {}}, extraPodSpec: {}}}`,
	"an empty main container":                         `services: {Worker: {extraPodSpec: {mainContainer: {}}}, A: {extraPodMetadata: {}}, B: {extraPodSpec: {mainContainer: {name: provider}}}}`,
	"empty lists of a pod":                            `services: {Worker: {extraPodSpec: {containers: [], initContainers: [], volumes: [], tolerations: [], nodeSelector: {}, mainContainer: {image: i, args: [], env: [], resources: {}}}}}`,
	"autoscaling":                                     `services: {Worker: {autoscaling: {enabled: true, minReplicas: 1, maxReplicas: 3, metrics: [{type: Resource}], behavior: {}}}, A: {autoscaling: {enabled: false}}, B: {autoscaling: {}}}`,
	"an ingress":                                      `services: {Worker: {}, F: {componentType: frontend, ingress: {enabled: true, host: chat, hostPrefix: eu-, hostSuffix: example.com, annotations: {a: b}, tls: {secretName: tls}}}, G: {componentType: frontend, ingress: {}}}`,
	"claims":                                          `{pvcs: [{name: models, create: true, storageClass: fast, size: 1Ti, volumeAccessMode: ReadWriteMany}, {name: data, create: false}], services: {Worker: {volumeMounts: [{name: models, mountPoint: /m}, {name: Data_1, mountPoint: /d}]}}}`,
	"a compilation cache":                             `services: {Worker: {volumeMounts: [{name: kernels, mountPoint: /k, useAsCompilationCache: true}, {name: m, mountPoint: /m}]}}`,
	"Dynamo namespaces":                               `services: {Worker: {dynamoNamespace: old}, A: {globalDynamoNamespace: true}, B: {globalDynamoNamespace: false, dynamoNamespace: ""}}`,
	"labels and annotations of a Service":             `services: {Worker: {labels: {a: b, c: ""}, annotations: {d: e}, extraPodMetadata: {labels: {a: pod}, annotations: {f: g}}}}`,
	"where an environment came from":                  `{envs: [{name: A, value: "1"}], services: {Worker: {envs: [{name: A, value: "2"}, {name: B}], envFromSecret: s, extraPodSpec: {mainContainer: {image: i, env: [{name: B, value: "3"}, {name: C, value: ""}], envFrom: [{configMapRef: {name: c}}]}}}}}`,
	"probes twice":                                    `services: {Worker: {livenessProbe: {periodSeconds: 1}, readinessProbe: {httpGet: {path: /r, port: system}}, extraPodSpec: {mainContainer: {image: i, livenessProbe: {timeoutSeconds: 2}}}}}`,
	"scaling adapters that are off":                   `services: {Worker: {scalingAdapter: {}}, A: {scalingAdapter: {enabled: false}}, B: {scalingAdapter: {enabled: true}}}`,
	"frontend sidecars":                               `services: {Worker: {frontendSidecar: {image: f}}, A: {frontendSidecar: {image: f, args: [], envs: [], envFromSecret: ""}, extraPodSpec: {containers: [{name: log, image: l}, {name: main}]}}}`,
	"what is experimental":                            `{backendFramework: vllm, services: {Worker: {componentType: worker, resources: {limits: {gpu: "1"}}, gpuMemoryService: {enabled: true, mode: interPod}, failover: {enabled: true, mode: interPod}, checkpoint: {enabled: false}}, A: {gpuMemoryService: {enabled: false}, failover: {enabled: false, numShadows: 2}}}}`,
	"a multinode service by default":                  `services: {Worker: {multinode: {}}, A: {multinode: {nodeCount: 3}}}`,
	"what has no effect":                              `{providerOverride: {grove: {terminationDelay: 15m}}, services: {Worker: {serviceName: ignored, runtimeVersionOverride: latest, providerOverride: {lws: {a: 1}}, pvc: {name: models, create: false, mountPoint: /models}}}}`,
	"an endpoint picker's configuration":              `services: {Worker: {}, E: {componentType: epp, eppConfig: {config: {plugins: [{type: picker, parameters: {weight: 1.5, nested: [1, "2", null, true]}}]}}}}`,
	"a model":                                         `services: {Worker: {modelRef: {name: m}, minAvailable: 1}, A: {modelRef: {name: m, revision: ""}}}`,
	"names in another order":                          `services: {Worker: {}, z: {}, A: {}, m: {}}`,
}

// A deployment of v1alpha1 is stored in v1beta1. Its status and the number of its Worker are written there, as the operator, an autoscaler and
// the planner do. In v1alpha1 it must then say all that it said.
var _ = DescribeTable("v1alpha1 keeps what v1beta1 cannot say, with", func(ctx SpecContext, spec string) {
	o := &odd{newServer(ctx)}
	alpha := deploymentOf("v1alpha1", "odd-leaves")
	content := manifest.Parse(GinkgoTB(), spec)
	nameImages(content)
	alpha.Object["spec"] = content
	alpha.SetAnnotations(map[string]string{"example.com/mine": "yes"})
	want := alpha.DeepCopy()
	o.create(alpha)
	stored := o.alpha()
	Expect(lost("spec", want.Object["spec"], stored.Object["spec"])).To(BeEmpty(), "lost on create")

	o.writeStatus(`{"status":{"state":"pending","observedGeneration":1,"components":{"Worker":{"componentKind":"ScalingGroup","replicas":1,"updatedReplicas":1}}}}`)
	o.wantSame(stored, "after the status")

	var memory []int
	for _, n := range []int64{4, 0, 2} {
		o.writeReplicas("Worker", n)
		Expect(unstructured.SetNestedField(stored.Object, n, "spec", "services", "Worker", "replicas")).To(Succeed())
		o.wantSame(stored, fmt.Sprintf("after scaling to %d", n))
		memory = append(memory, len(o.alpha().GetAnnotations()[nvidiav1alpha1.AnnotationSpecMemory]))
	}
	Expect(memory[2]).To(Equal(memory[0]), "what is remembered must not grow with each edit: bytes")
	o.writeStatus(`{"status":{"state":"successful","components":{"Worker":{"componentKind":"ScalingGroup","replicas":2,"updatedReplicas":2}}}}`)
	o.wantSame(stored, "after the status again")
}, suite.Entries(oddLeaves, SpecTimeout(suite.Timeout())))

// nameImages gives each component the image that a new one must have.
func nameImages(spec map[string]any) {
	GinkgoHelper()
	for name := range spec["services"].(map[string]any) {
		path := []string{"services", name, "extraPodSpec", "mainContainer", "image"}
		if image, _, _ := unstructured.NestedString(spec, path...); image == "" {
			Expect(unstructured.SetNestedField(spec, "i", path...)).To(Succeed())
		}
	}
}

// odd is a server with the deployment odd-leaves.
type odd struct{ *server }

// alpha reads the deployment in v1alpha1.
func (o *odd) alpha() *unstructured.Unstructured {
	GinkgoHelper()
	alpha := deploymentOf("v1alpha1", "odd-leaves")
	o.get(alpha)
	return alpha
}

func (o *odd) writeStatus(patch string) {
	GinkgoHelper()
	Expect(o.admin.Status().Patch(o.ctx, deploymentOf("v1beta1", "odd-leaves"), client.RawPatch(types.MergePatchType, []byte(patch)))).To(Succeed())
}

// writeReplicas as the planner does.
func (o *odd) writeReplicas(component string, n int64) {
	GinkgoHelper()
	beta := deploymentOf("v1beta1", "odd-leaves")
	o.get(beta)
	components, _, err := unstructured.NestedSlice(beta.Object, "spec", "components")
	Expect(err).NotTo(HaveOccurred())
	i := slices.IndexFunc(components, func(c any) bool { return c.(map[string]any)["name"] == component })
	patch := fmt.Sprintf(`[{"op":"test","path":"/spec/components/%d/name","value":%q},{"op":"add","path":"/spec/components/%d/replicas","value":%d}]`, i, component, i, n)
	Expect(o.admin.Patch(o.ctx, beta, client.RawPatch(types.JSONPatchType, []byte(patch)))).To(Succeed())
}

// wantSame fails the spec unless spec, annotations and labels are those of a deployment: all that a user writes. After an edit in v1beta1 an
// annotation holds what only that version can say.
func (o *odd) wantSame(want *unstructured.Unstructured, when string) {
	GinkgoHelper()
	got := o.alpha()
	annotations := got.GetAnnotations()
	delete(annotations, nvidiav1alpha1.AnnotationSpecMemory)
	Expect(cmp.Diff(
		[]any{want.Object["spec"], want.GetAnnotations(), want.GetLabels()}, []any{got.Object["spec"], annotations, got.GetLabels()},
	)).To(BeEmpty(), "%s (-want +got)", when)
}

// lost are the paths of what was written and is there no longer or is another value. What the API server adds by default is no loss.
func lost(path string, before, after any) []string {
	switch old := before.(type) {
	case map[string]any:
		now, ok := after.(map[string]any)
		if !ok {
			return []string{path}
		}
		var all []string
		for key, value := range old {
			all = append(all, lost(path+"."+key, value, now[key])...)
		}
		return all
	case []any:
		now, ok := after.([]any)
		if !ok || len(now) != len(old) {
			return []string{path}
		}
		var all []string
		for i := range old {
			all = append(all, lost(fmt.Sprintf("%s[%d]", path, i), old[i], now[i])...)
		}
		return all
	}
	if fmt.Sprint(before) != fmt.Sprint(after) {
		return []string{fmt.Sprintf("%s: %v, now %v", path, before, after)}
	}
	return nil
}
