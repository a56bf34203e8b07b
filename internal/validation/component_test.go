// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
)

func TestServiceRules(t *testing.T) {
	const notQuantity = `must be a Kubernetes quantity such as "4", "500m" or "16Gi"`
	var rules []string
	for _, check := range componentChecks {
		rules = append(rules, check.name)
	}
	testRules(t, rules, map[string]ruleCase{
		"service name: characters": {
			change: func(d *deployment) { d.Spec.Services["my_service"] = &componentSpec{} },
			want: []string{`spec.services[my_service]: Invalid value: "my_service": a service name must consist of letters, digits, '-' or '.', and begin and end ` +
				`with a letter or digit; must match ^[A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?$`},
		},
		"service name: 10,000 characters": {
			change: func(d *deployment) { d.Spec.Services[strings.Repeat("a", 10000)] = &componentSpec{} },
			want:   []string{`spec.services[` + strings.Repeat("a", 80) + `...]: Too long: a service name must have at most 63 characters; shorten it`},
		},
		"service annotations: executor": {
			change: worker(func(s *componentSpec) { s.Annotations = map[string]string{annotationExecutorBackend: ""} }),
			want:   []string{`spec.services[Worker].annotations[nvidia.com/vllm-distributed-executor-backend]: Unsupported value: "": must be "mp" or "ray"`},
		},
		"distinct hosts: value": {
			change: distinctWorker("yes"),
			want:   []string{`spec.services[Worker].annotations[trellis.dev/distinct-hosts]: Unsupported value: "yes": must be "true" or "false"`},
		},
		"replicas: negative": {
			change: worker(func(s *componentSpec) { s.Replicas, s.MinAvailable = ptr.To[int32](-1), ptr.To[int32](0) }),
			want: []string{
				`spec.services[Worker].replicas: Invalid value: -1: spec.services[Worker].replicas must be non-negative`,
				`spec.services[Worker].minAvailable: Invalid value: 0: must be at least 1, or left out`,
			},
		},
		"service annotations: executor in capitals": {
			change: worker(func(s *componentSpec) { s.Annotations = map[string]string{annotationExecutorBackend: "RAY"} }),
		},
		"node count: 1": {
			change: worker(func(s *componentSpec) { s.Multinode.NodeCount = 1 }),
			want:   []string{`spec.services[Worker].multinode.nodeCount: Invalid value: 1: must be at least 2; remove multinode from a service whose replicas sit on one node`},
		},
		"compared lists: too many host ports": {
			change: worker(func(s *componentSpec) {
				s.ExtraPodSpec = &nvidiav1alpha1.ExtraPodSpec{MainContainer: &corev1.Container{Image: "i", Ports: make([]corev1.ContainerPort, 257)}}
				for i := range s.ExtraPodSpec.MainContainer.Ports {
					s.ExtraPodSpec.MainContainer.Ports[i].HostPort = int32(i + 1)
				}
			}),
			want: []string{`spec.services[Worker].extraPodSpec.mainContainer.ports: Too many: 257: must have at most 256 host ports in all containers: ` +
				`they are compared with every node; remove host ports: pods reach each other without them`},
		},
		"scheduling: a fixed node": {
			change: worker(func(s *componentSpec) {
				s.ExtraPodSpec = &nvidiav1alpha1.ExtraPodSpec{PodSpec: &corev1.PodSpec{NodeName: "n1"}}
			}),
			want: []string{`spec.services[Worker].extraPodSpec.nodeName: Forbidden: the pods of a multinode service, and of a deployment with a topology constraint, ` +
				`are placed by the operator; remove nodeName, or use nodeSelector`},
		},
		"scheduling: the operator's gate": {
			change: worker(func(s *componentSpec) {
				s.ExtraPodSpec = &nvidiav1alpha1.ExtraPodSpec{PodSpec: &corev1.PodSpec{SchedulingGates: []corev1.PodSchedulingGate{{Name: "mine"}, {Name: "trellis.dev/placement"}}}}
			}),
			want: []string{`spec.services[Worker].extraPodSpec.schedulingGates[1].name: Forbidden: the gate trellis.dev/placement is the operator's own; remove it`},
		},
		"resources: abc": {
			change: limits(nvidiav1alpha1.ResourceItem{CPU: "abc", Memory: "-1Gi", GPU: "0.5", Custom: map[string]string{"rdma/ib": "", "no name": "1", "efa": strings.Repeat("9", 65)}}),
			want: []string{
				`spec.services[Worker].resources.limits.cpu: Invalid value: "abc": ` + notQuantity,
				`spec.services[Worker].resources.limits.memory: Invalid value: "-1Gi": must not be negative`,
				`spec.services[Worker].resources.limits.gpu: Invalid value: "0.5": must be a whole number: nvidia.com/gpu cannot be split`,
				`spec.services[Worker].resources.limits.custom[efa]: Invalid value: "` + strings.Repeat("9", 65) + `": ` + notQuantity,
				`spec.services[Worker].resources.limits.custom[no name]: Invalid value: "no name": not a resource name: name part must consist of alphanumeric characters, ` +
					`'-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`,
				`spec.services[Worker].resources.limits.custom[rdma/ib]: Invalid value: "": ` + notQuantity,
			},
		},
		"resources: exponent that would fill the memory": {
			change: worker(func(s *componentSpec) {
				s.Resources = &nvidiav1alpha1.Resources{Limits: &nvidiav1alpha1.ResourceItem{CPU: "1"}, Requests: &nvidiav1alpha1.ResourceItem{CPU: "1e2000000000"}}
			}),
			want: []string{`spec.services[Worker].resources.requests.cpu: Invalid value: "1e2000000000": ` + notQuantity},
		},
		"resources: request above limit": {
			change: worker(func(s *componentSpec) {
				s.Resources = &nvidiav1alpha1.Resources{Limits: &nvidiav1alpha1.ResourceItem{Memory: "1Gi"}, Requests: &nvidiav1alpha1.ResourceItem{Memory: "2Gi"}}
			}),
			want: []string{`spec.services[Worker].resources.requests.memory: Invalid value: "2Gi": must not be more than the limit of 1Gi; raise resources.limits or ask for less`},
		},
		"service constraint: topology": {
			change: worker(func(s *componentSpec) { s.TopologyConstraint.TopologyProfile = "gb200" }),
			want: []string{`spec.services[Worker].topologyConstraint.topologyProfile: Forbidden: topologyProfile must not be set on a service: it is inherited from ` +
				`spec.topologyConstraint.topologyProfile; remove it here`},
		},
		"service constraint: empty": {
			change: worker(func(s *componentSpec) { s.TopologyConstraint.PackDomain = "" }),
			want: []string{`spec.services[Worker].topologyConstraint.packDomain: Required value: spec.services[Worker].topologyConstraint.packDomain is required: ` +
				`set packDomain or preferredPackDomain, or remove topologyConstraint`},
		},
		"service constraint: format": {
			change: worker(func(s *componentSpec) { s.TopologyConstraint.PackDomain = "-rack" }),
			want:   []string{`spec.services[Worker].topologyConstraint.packDomain: Invalid value: "-rack": packDomain "-rack" ` + badDomain},
		},
		"roles: of one node": {
			change: worker(func(s *componentSpec) { s.Multinode, s.Roles = nil, []nvidiav1beta1.ComponentRole{} }),
			want:   []string{`spec.services[Worker].roles: Forbidden: only a multinode service has roles; remove the list`},
		},
		"roles: workers alone, too many": {
			change: worker(func(s *componentSpec) {
				s.Roles = []nvidiav1beta1.ComponentRole{{Name: "worker", Replicas: ptr.To[int32](4)}}
			}),
			want: []string{
				`spec.services[Worker].roles[worker].replicas: Invalid value: 4: must equal 3 for multinode role "worker"; change nodeCount, or leave replicas out`,
				`spec.services[Worker].roles: Required value: must contain the "leader" role`,
			},
		},
		"ingress: host": {
			change: worker(func(s *componentSpec) { s.Ingress = &nvidiav1alpha1.IngressSpec{Enabled: true} }),
			want:   []string{`spec.services[Worker].ingress.host: Required value: spec.services[Worker].ingress.host is required when ingress is enabled`},
		},
		"volume mounts: name and place": {
			change: worker(func(s *componentSpec) {
				s.VolumeMounts = []nvidiav1alpha1.VolumeMount{{UseAsCompilationCache: true}, {Name: "a"}}
			}),
			want: []string{
				`spec.services[Worker].volumeMounts[0].name: Required value: name a claim of spec.pvcs`,
				`spec.services[Worker].volumeMounts[1].mountPoint: Required value: spec.services[Worker].volumeMounts[1].mountPoint is required when useAsCompilationCache is false`,
			},
		},
		"shared memory: no size": {
			change: worker(func(s *componentSpec) { s.SharedMemory = &nvidiav1alpha1.SharedMemorySpec{} }),
			want:   []string{`spec.services[Worker].sharedMemory.size: Required value: spec.services[Worker].sharedMemory.size is required when disabled is false`},
		},
		"shared memory: size and disabled": {
			change: worker(func(s *componentSpec) {
				s.SharedMemory = &nvidiav1alpha1.SharedMemorySpec{Disabled: true, Size: resource.MustParse("1Gi")}
			}),
			want: []string{`spec.services[Worker].sharedMemory.size: Forbidden: size must not be set when disabled is true; remove one of the two`},
		},
		"shared memory: negative": {
			change: worker(func(s *componentSpec) {
				s.SharedMemory = &nvidiav1alpha1.SharedMemorySpec{Size: resource.MustParse("-1Gi")}
			}),
			want: []string{`spec.services[Worker].sharedMemory.size: Invalid value: "-1Gi": must be more than 0`},
		},
		"endpoint picker: no config, multinode, two": {
			change: worker(func(s *componentSpec) { s.ComponentType = nvidiav1alpha1.ComponentTypeEPP }),
			want: []string{
				`spec.services[Worker].eppConfig: Required value: eppConfig with exactly one of configMapRef and config is required for componentType epp with a runtime before 1.5.0; for a later one, whose image tag does not say so, set runtimeVersionOverride`,
				`spec.services[Worker].multinode: Forbidden: componentType epp must be single-node; remove multinode`,
				`spec.services[Worker].replicas: Invalid value: 2: componentType epp must have exactly 1 replica (or 0 to stop it)`,
			},
		},
		"endpoint picker: two configs": {
			change: worker(func(s *componentSpec) {
				s.EPPConfig = &nvidiav1alpha1.EPPConfig{Config: &nvidiav1alpha1.FreeObject{RawExtension: runtime.RawExtension{Raw: []byte("{}")}}, ConfigMapRef: &corev1.ConfigMapKeySelector{Key: "k"}}
			}),
			want: []string{`spec.services[Worker].eppConfig: Invalid value: must have exactly one of configMapRef and config`},
		},
		"frontend sidecar: image and name": {
			change: worker(func(s *componentSpec) {
				s.FrontendSidecar = &nvidiav1alpha1.FrontendSidecar{}
				s.ExtraPodSpec = &nvidiav1alpha1.ExtraPodSpec{PodSpec: &corev1.PodSpec{Containers: []corev1.Container{{Name: sidecarContainer}}}}
			}),
			want: []string{
				`spec.services[Worker].frontendSidecar.image: Required value: name the frontend's image`,
				`spec.services[Worker].extraPodSpec.containers[0].name: Duplicate value: "sidecar-frontend": frontendSidecar makes a container of this name; rename this one`,
			},
		},
		"device modes: words": {
			change: worker(func(s *componentSpec) {
				s.GPUMemoryService = &nvidiav1alpha1.GPUMemoryService{Mode: "x"}
				s.Failover = &nvidiav1alpha1.Failover{Mode: "y", NumShadows: -1}
			}),
			want: []string{
				`spec.services[Worker].gpuMemoryService.mode: Unsupported value: "x": supported values: "intraPod", "interPod"`,
				`spec.services[Worker].failover.mode: Unsupported value: "y": supported values: "intraPod", "interPod"`,
				`spec.services[Worker].failover.numShadows: Invalid value: -1: must be non-negative`,
			},
		},
	})
}
