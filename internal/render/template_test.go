// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/field"
	"github.com/trellis-k8s/trellis/test/testutil/hub"
)

// podOf resolves one component, written as YAML, to its pod spec.
func podOf(t *testing.T, component string) (corev1.PodSpec, error) {
	t.Helper()
	spec := &nvidiav1alpha1.ServiceSpec{}
	if err := yaml.UnmarshalStrict([]byte(component), spec); err != nil {
		t.Fatal(err)
	}
	dgd := graphOf("llm", nil)
	dgd.Spec.Services["W"] = spec
	dgd.Spec.Envs = []corev1.EnvVar{{Name: "FROM_SPEC", Value: "1"}}
	g, err := Resolve(hub.Of(dgd), Inputs{})
	if err != nil {
		return corev1.PodSpec{}, err
	}
	return g.Components[0].Roles[0].Template.Spec, nil
}

func TestCommand(t *testing.T) {
	tests := map[string]struct {
		component string
		want      []string
	}{
		"frontend as it comes":            {`{componentType: frontend}`, []string{"python3", "-m", "dynamo.frontend"}},
		"frontend with args":              {`{componentType: frontend, extraPodSpec: {mainContainer: {args: [-m, my.frontend]}}}`, []string{"python3", "-m", "my.frontend"}},
		"frontend with a command":         {`{componentType: frontend, extraPodSpec: {mainContainer: {command: [./front]}}}`, []string{"./front"}},
		"worker with args":                {`{componentType: worker, extraPodSpec: {mainContainer: {args: [echo hi]}}}`, []string{"/bin/sh", "-c", "echo hi"}},
		"worker of the image's own":       {`{componentType: worker}`, nil},
		"anything else with args":         {`{componentType: main, extraPodSpec: {mainContainer: {args: [echo hi]}}}`, []string{"/bin/sh", "-c", "echo hi"}},
		"endpoint picker, the image's":    {`{componentType: epp, extraPodSpec: {mainContainer: {args: [-v]}}}`, []string{"-v"}},
		"no component type, with command": {`{extraPodSpec: {mainContainer: {command: [./a], args: [b]}}}`, []string{"./a", "b"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			pod, err := podOf(t, tc.component)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			got = append(append(got, pod.Containers[0].Command...), pod.Containers[0].Args...)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestProbesAndPorts(t *testing.T) {
	tests := map[string]struct{ component, liveness, readiness, startup, ports string }{
		"worker":                      {`{componentType: worker}`, "/live system", "/health system", "/live system", "system nixl"},
		"decode":                      {`{componentType: decode}`, "/live system", "/health system", "/live system", "system nixl"},
		"frontend":                    {`{componentType: frontend}`, "/live http", "/health http", "", "http"},
		"anything else":               {`{componentType: main}`, "", "", "", ""},
		"main container's own":        {`{componentType: frontend, extraPodSpec: {mainContainer: {livenessProbe: {httpGet: {path: /a, port: 1}}, startupProbe: {httpGet: {path: /b, port: 2}}}}}`, "/a 1", "/health http", "/b 2", "http"},
		"the service's win":           {`{componentType: frontend, livenessProbe: {httpGet: {path: /c, port: 3}}, extraPodSpec: {mainContainer: {livenessProbe: {httpGet: {path: /a, port: 1}}}}}`, "/c 3", "/health http", "", "http"},
		"the user's port, named else": {`{componentType: frontend, extraPodSpec: {mainContainer: {ports: [{name: web, containerPort: 8000}]}}}`, "/live 8000", "/health 8000", "", "web"},
		"the user's port, moved":      {`{componentType: frontend, extraPodSpec: {mainContainer: {ports: [{name: http, containerPort: 80}]}}}`, "/live http", "/health http", "", "http"},
		"one more port":               {`{componentType: worker, extraPodSpec: {mainContainer: {ports: [{name: zmq, containerPort: 5555}]}}}`, "/live system", "/health system", "/live system", "zmq system nixl"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			pod, err := podOf(t, tc.component)
			if err != nil {
				t.Fatal(err)
			}
			c := pod.Containers[0]
			var ports []string
			for _, p := range c.Ports {
				ports = append(ports, p.Name)
			}
			got := []string{probed(c.LivenessProbe), probed(c.ReadinessProbe), probed(c.StartupProbe), strings.Join(ports, " ")}
			if diff := cmp.Diff([]string{tc.liveness, tc.readiness, tc.startup, tc.ports}, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func probed(p *corev1.Probe) string {
	if p == nil {
		return ""
	}
	return p.HTTPGet.Path + " " + p.HTTPGet.Port.String()
}

func TestResources(t *testing.T) {
	tests := map[string]struct{ component, requests, limits string }{
		"none":                      {`{}`, "", ""},
		"gpu limit only":            {`{resources: {limits: {gpu: "8"}}}`, "nvidia.com/gpu=8", "nvidia.com/gpu=8"},
		"gpu request only":          {`{resources: {requests: {gpu: "8"}}}`, "nvidia.com/gpu=8", "nvidia.com/gpu=8"},
		"another kind of gpu":       {`{resources: {limits: {gpu: "2", gpuType: gpu.intel.com/xe}}}`, "gpu.intel.com/xe=2", "gpu.intel.com/xe=2"},
		"cpu and memory as written": {`{resources: {requests: {cpu: 500m, memory: 1Gi}, limits: {memory: 2Gi}}}`, "cpu=500m memory=1Gi", "memory=2Gi"},
		"custom":                    {`{resources: {requests: {custom: {ephemeral-storage: 2Gi, rdma/ib: "1"}}}}`, "ephemeral-storage=2Gi rdma/ib=1", "rdma/ib=1"},
		"huge pages":                {`{resources: {limits: {custom: {hugepages-2Mi: 4Mi}}}}`, "hugepages-2Mi=4Mi", "hugepages-2Mi=4Mi"},
		"over the main container's": {`{resources: {limits: {gpu: "2"}}, extraPodSpec: {mainContainer: {resources: {limits: {nvidia.com/gpu: "1", memory: 1Gi}}}}}`, "nvidia.com/gpu=2", "memory=1Gi nvidia.com/gpu=2"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			pod, err := podOf(t, tc.component)
			if err != nil {
				t.Fatal(err)
			}
			r := pod.Containers[0].Resources
			if diff := cmp.Diff([]string{tc.requests, tc.limits}, []string{amounts(r.Requests), amounts(r.Limits)}); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func amounts(list corev1.ResourceList) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(list)) {
		quantity := list[name]
		out = append(out, string(name)+"="+quantity.String())
	}
	return strings.Join(out, " ")
}

func TestFieldErrors(t *testing.T) {
	for name, tc := range map[string]struct{ component, want string }{
		"no quantity":           {`{resources: {limits: {gpu: "abc"}}}`, `spec.services[W].resources.limits.gpu: "abc" is not a quantity`},
		"negative":              {`{resources: {requests: {memory: "-1"}}}`, `spec.services[W].resources.requests.memory: "-1" is negative`},
		"half a gpu":            {`{resources: {limits: {gpu: 500m}}}`, `spec.services[W].resources: nvidia.com/gpu: 500m is not a whole number`},
		"request and limit":     {`{resources: {requests: {gpu: "1"}, limits: {gpu: "2"}}}`, `spec.services[W].resources: nvidia.com/gpu: request 1 and limit 2 differ`},
		"request above limit":   {`{resources: {requests: {cpu: "3"}, limits: {cpu: "2"}}}`, `spec.services[W].resources: cpu: request 3 is above limit 2`},
		"resource name":         {`{resources: {limits: {custom: {"a b": "2"}}}}`, `spec.services[W].resources.limits.custom[a b]: "a b" is not a resource name`},
		"of another container":  {`{extraPodSpec: {containers: [{name: side, resources: {requests: {cpu: 2}, limits: {cpu: 1}}}]}}`, `spec.services[W].extraPodSpec.containers[side].resources: cpu: `},
		"too much to compare":   {`{extraPodSpec: {mainContainer: {resources: {requests: {cpu: 1e999999999}, limits: {cpu: 1}}}}}`, `spec.services[W].resources: cpu: 1e999999999 is out of range`},
		"two main containers":   {`{extraPodSpec: {containers: [{name: main}]}}`, `spec.services[W].extraPodSpec.containers: two containers are named "main"`},
		"no mount point":        {`{volumeMounts: [{name: models}]}`, `spec.services[W].volumeMounts[models].mountPoint: mountPoint is required`},
		"negative replicas":     {`{replicas: -1}`, `spec.services[W].replicas: must not be negative, is -1`},
		"two frameworks":        {`{multinode: {nodeCount: 2}, extraPodSpec: {mainContainer: {command: [sh, -c, python3 -m dynamo.vllm; python3 -m dynamo.sglang]}}}`, `spec.services[W].extraPodSpec.mainContainer: the command runs several frameworks`},
		"several errors at one": {`{replicas: -1, resources: {limits: {gpu: "abc"}}}`, "spec.services[W].replicas: must not be negative, is -1\nspec.services[W].resources.limits.gpu: "},
	} {
		if _, err := podOf(t, tc.component); err == nil || !strings.Contains(field.ErrorIn(err, "v1alpha1"), tc.want) {
			t.Errorf("%s: error %v, want %q", name, err, tc.want)
		}
	}
}

// TestErrorsInV1beta1: who writes v1beta1 reads nothing of the fields that only v1alpha1 has.
func TestErrorsInV1beta1(t *testing.T) {
	const frameworks = `{multinode: {nodeCount: 2}, extraPodSpec: {mainContainer: {command: [sh, -c, python3 -m dynamo.vllm; python3 -m dynamo.sglang]}}}`
	for component, want := range map[string]string{
		`{extraPodSpec: {initContainers: [{name: main}]}}`: `spec.components[0].podTemplate.spec.containers: two containers are named "main"; the component's own container is named "main"`,
		frameworks: `spec.components[0].podTemplate.spec.containers[main]: the command runs several frameworks (vllm, sglang); give each a component of its own`,
	} {
		if _, err := podOf(t, component); err == nil || field.ErrorIn(err, "v1beta1") != want || err.Error() != want {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

func TestSharedMemoryAndClaims(t *testing.T) {
	tests := map[string]struct{ component, mounts, volumes string }{
		"as it comes":         {`{}`, "shared-memory:/dev/shm", "shared-memory 8Gi"},
		"larger":              {`{sharedMemory: {size: 80Gi}}`, "shared-memory:/dev/shm", "shared-memory 80Gi"},
		"none":                {`{sharedMemory: {disabled: true}}`, "", ""},
		"the user's own":      {`{extraPodSpec: {volumes: [{name: mine, emptyDir: {sizeLimit: 1Gi}}], mainContainer: {volumeMounts: [{name: mine, mountPath: /dev/shm}]}}}`, "mine:/dev/shm", "mine 1Gi"},
		"written over it":     {`{sharedMemory: {size: 2Gi}, extraPodSpec: {volumes: [{name: mine, emptyDir: {sizeLimit: 1Gi}}], mainContainer: {volumeMounts: [{name: mine, mountPath: /dev/shm}]}}}`, "shared-memory:/dev/shm", "mine 1Gi, shared-memory 2Gi"},
		"claims":              {`{sharedMemory: {disabled: true}, volumeMounts: [{name: models, mountPoint: /models}, {name: models, mountPoint: /again}]}`, "models:/models models:/again", "models claim models"},
		"declared by user":    {`{sharedMemory: {disabled: true}, volumeMounts: [{name: models, mountPoint: /m}], extraPodSpec: {volumes: [{name: models, emptyDir: {sizeLimit: 1Gi}}]}}`, "models:/m", "models 1Gi"},
		"cache, sglang":       {`{sharedMemory: {disabled: true}, volumeMounts: [{name: c, mountPoint: /cache, useAsCompilationCache: true}], extraPodSpec: {mainContainer: {command: [python3, -m, dynamo.sglang]}}}`, "c:/cache", "c claim c"},
		"cache, vllm":         {`{sharedMemory: {disabled: true}, volumeMounts: [{name: c, useAsCompilationCache: true}], extraPodSpec: {mainContainer: {command: [python3, -m, dynamo.vllm]}}}`, "c:/root/.cache/vllm", "c claim c"},
		"a claim's long name": {`{sharedMemory: {disabled: true}, volumeMounts: [{name: a.b, mountPoint: /x}]}`, "a-b-" + shortHash("a.b") + ":/x", "a-b-" + shortHash("a.b") + " claim a.b"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			pod, err := podOf(t, tc.component)
			if err != nil {
				t.Fatal(err)
			}
			var mounts, volumes []string
			for _, m := range pod.Containers[0].VolumeMounts {
				mounts = append(mounts, m.Name+":"+m.MountPath)
			}
			for _, v := range pod.Volumes {
				if v.EmptyDir != nil {
					volumes = append(volumes, v.Name+" "+v.EmptyDir.SizeLimit.String())
				} else {
					volumes = append(volumes, v.Name+" claim "+v.PersistentVolumeClaim.ClaimName)
				}
			}
			if diff := cmp.Diff([]string{tc.mounts, tc.volumes}, []string{strings.Join(mounts, " "), strings.Join(volumes, ", ")}); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestAmountsAreNotShared: the size in the deployment is not the one in the pod.
func TestAmountsAreNotShared(t *testing.T) {
	dgd := graphOf("llm", map[string]int32{"w": 1})
	dgd.Spec.Services["w"].SharedMemory = &nvidiav1alpha1.SharedMemorySpec{Size: resource.MustParse("1Gi")}
	g, err := Resolve(hub.Of(dgd), Inputs{})
	if err != nil {
		t.Fatal(err)
	}
	g.Components[0].Roles[0].Template.Spec.Volumes[0].EmptyDir.SizeLimit.Add(resource.MustParse("1Gi"))
	if got := dgd.Spec.Services["w"].SharedMemory.Size; got.String() != "1Gi" {
		t.Errorf("the deployment says %s now", got.String())
	}
}
