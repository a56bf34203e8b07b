// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/internal/render"
)

const badDomain = `is not a valid topology domain; must match ^[a-z0-9]([a-z0-9-]*[a-z0-9])?$ and have at most 63 characters`

func TestGraphRules(t *testing.T) {
	var rules []string
	for _, check := range graphChecks {
		rules = append(rules, check.name)
	}
	testRules(t, rules, map[string]ruleCase{
		"object name: capitals": {
			change: func(d *deployment) { d.Name = "LLM" },
			want: []string{`metadata.name: Invalid value: "LLM": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', ` +
				`and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`},
		},
		"object name: 10,000 characters": {
			change: func(d *deployment) { d.Name = strings.Repeat("a", 10000) },
			want:   []string{`metadata.name: Invalid value: "` + strings.Repeat("a", 80) + `...": must be no more than 253 characters`},
		},
		"object name: generateName": {
			change: func(d *deployment) { d.Name, d.GenerateName = "", "-llm-" },
			want: []string{`metadata.generateName: Invalid value: "-llm-": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', ` +
				`and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`},
		},
		"distinct hosts on one host: both": {
			change: func(d *deployment) {
				distinctWorker("true")(d)
				d.Spec.Services["Worker"].TopologyConstraint.PackDomain = "host"
			},
			want: []string{`spec.services[Worker].topologyConstraint.packDomain: Invalid value: "host": keeps each replica on one host, but the annotation ` +
				`trellis.dev/distinct-hosts keeps its pods on different hosts; use a broader domain or remove the annotation`},
		},
		"annotations: compute domain": {
			change: func(d *deployment) { d.Annotations = map[string]string{render.AnnotationComputeDomain: "All of it"} },
			want: []string{`metadata.annotations[trellis.dev/compute-domain]: Invalid value: "All of it": must be a name of lowercase letters, digits and '-': ` +
				`components with the same name share an NVLink domain; "none" means no domain`},
		},
		"annotations: who shares a compute domain": {
			change: func(d *deployment) { d.Annotations = map[string]string{render.AnnotationComputeDomainPer: "pod"} },
			want:   []string{`metadata.annotations[trellis.dev/compute-domain-per]: Unsupported value: "pod": must be "name" or "replica"`},
		},
		"provider: value": {
			change: func(d *deployment) { d.Annotations = map[string]string{render.AnnotationProvider: "Volcano"} },
			want:   []string{`metadata.annotations[trellis.dev/provider]: Unsupported value: "Volcano": must be "auto" or "Gates" or "PodGroup" or "KAI" or "Grove"`},
		},
		"provider: value of its former name": {
			change: func(d *deployment) { d.Annotations = map[string]string{render.AnnotationFormerProvider: "Volcano"} },
			want:   []string{`metadata.annotations[trellis.dev/engine]: Unsupported value: "Volcano": must be "auto" or "Gates" or "PodGroup" or "KAI" or "Grove"`},
		},
		"provider: both names, one value": {
			change: func(d *deployment) {
				d.Annotations = map[string]string{render.AnnotationProvider: "KAI", render.AnnotationFormerProvider: "KAI"}
			},
		},
		"provider: both names, two values": {
			change: func(d *deployment) {
				d.Annotations = map[string]string{render.AnnotationProvider: "KAI", render.AnnotationFormerProvider: "Gates"}
			},
			want: []string{`metadata.annotations[trellis.dev/engine]: Forbidden: is the former name of trellis.dev/provider, which is set to KAI; remove this annotation`},
		},
		"provider: Dynamo's": {
			change: func(d *deployment) { d.Annotations = map[string]string{specs.AnnotationWorkloadProvider: "lws"} },
			want:   []string{`metadata.annotations[nvidia.com/workload-provider]: Unsupported value: "lws": must be "grove" or "component"`},
		},
		"provider: Dynamo's, ruled out": {
			change: func(d *deployment) {
				d.Annotations = map[string]string{specs.AnnotationWorkloadProvider: "grove", specs.AnnotationEnableGrove: "false"}
			},
			want: []string{`metadata.annotations[nvidia.com/workload-provider]: Forbidden: nvidia.com/enable-grove "false" rules Grove out; remove one of the two annotations`},
		},
		"provider: ruled out": {
			change: func(d *deployment) {
				d.Annotations = map[string]string{render.AnnotationProvider: "Grove", specs.AnnotationEnableGrove: "false"}
			},
			want: []string{`metadata.annotations[trellis.dev/provider]: Forbidden: nvidia.com/enable-grove "false" rules Grove out; remove one of the two annotations`},
		},
		"provider: workload": {
			change: func(d *deployment) { d.Annotations = map[string]string{render.AnnotationWorkload: "Job"} },
			want:   []string{`metadata.annotations[trellis.dev/workload]: Unsupported value: "Job": must be "Pods" or "LeaderWorkerSet"`},
		},
		"provider: one that cannot place the workload": {
			change: func(d *deployment) {
				d.Annotations = map[string]string{render.AnnotationWorkload: "LeaderWorkerSet", render.AnnotationProvider: "PodGroup"}
			},
			want: []string{`metadata.annotations[trellis.dev/workload]: Forbidden: LeaderWorkerSets can be placed by Gates and KAI, not by PodGroup; choose one of them, or remove the annotation`},
		},
		"provider: one that can": {
			change: func(d *deployment) {
				d.Annotations = map[string]string{render.AnnotationWorkload: "LeaderWorkerSet", render.AnnotationProvider: "KAI"}
			},
		},
		"annotations: values": {
			change: func(d *deployment) {
				d.Annotations = map[string]string{annotationOriginVersion: "one", annotationExecutorBackend: "mpi", annotationDiscoveryMode: "node", render.AnnotationGenerations: "off"}
			},
			want: []string{
				`metadata.annotations[nvidia.com/vllm-distributed-executor-backend]: Unsupported value: "mpi": must be "mp" or "ray"`,
				`metadata.annotations[nvidia.com/dynamo-kube-discovery-mode]: Unsupported value: "node": must be "pod" or "container"`,
				`metadata.annotations[trellis.dev/worker-generations]: Unsupported value: "off": must be "true" or "false"`,
				`metadata.annotations[nvidia.com/dynamo-operator-origin-version]: Invalid value: "one": must be valid semver, e.g. 1.1.0`,
			},
		},
		"one form of constraint: both": {
			change: func(d *deployment) { d.Annotations["kai.scheduler/topology"] = "gb200" },
			want: []string{`metadata.annotations[kai.scheduler/topology]: Forbidden: a topology constraint is set both by this annotation and by ` +
				`topologyConstraint in the spec; remove one of the two forms`},
		},
		"number of services: none": {
			change: func(d *deployment) { d.Spec.Services = nil },
			want:   []string{`spec.services: Required value: spec.services must have at least one service; add one, e.g. Frontend`},
		},
		"number of services: 26": {
			change: func(d *deployment) {
				for i := range 24 {
					d.Spec.Services["s"+strings.Repeat("x", i)] = &componentSpec{}
				}
			},
			want: []string{`spec.services: Too many: 26: must have at most 25 services; split the graph into several DynamoGraphDeployments`},
		},
		"service names differ: case only": {
			change: func(d *deployment) { d.Spec.Services["frontend"] = nil },
			want: []string{`spec.services[frontend]: Duplicate value: "frontend": collides with service "Frontend": in the names of pods and Services ` +
				`both become "frontend"; rename one of them`},
		},
		"service names differ: dot and hyphen": {
			change: func(d *deployment) { d.Spec.Services["a.b"], d.Spec.Services["a-B"] = nil, nil },
			want: []string{`spec.services[a.b]: Duplicate value: "a.b": collides with service "a-B": in the names of pods and Services ` +
				`both become "a-b"; rename one of them`},
		},
		"object names differ: headless Service": {
			change: func(d *deployment) { d.Spec.Services["WORKER-pods"] = &componentSpec{} },
			want: []string{`spec.services[WORKER-pods]: Invalid value: "WORKER-pods": its Service would have the name of the headless Service of multinode ` +
				`service "Worker"; rename one of the two services`},
		},
		"claims: name, twice, create": {
			change: func(d *deployment) {
				d.Spec.PVCs = []nvidiav1alpha1.PVC{{}, {Name: ptr.To("a")}, {Name: ptr.To("a")},
					{Name: ptr.To("b"), Create: ptr.To(true), VolumeAccessMode: "Sometimes"}, {Name: ptr.To("c"), Size: resource.MustParse("-1Gi")}}
			},
			want: []string{
				`spec.pvcs[0].name: Required value: spec.pvcs[0].name is required`,
				`spec.pvcs[2].name: Duplicate value: "a": list each claim once`,
				`spec.pvcs[3].storageClass: Required value: storageClass is required when create is true: when create is true, size, storageClass, and volumeAccessMode are required`,
				`spec.pvcs[3].size: Required value: size is required when create is true: when create is true, size, storageClass, and volumeAccessMode are required`,
				`spec.pvcs[3].volumeAccessMode: Unsupported value: "Sometimes": supported values: "ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"`,
				`spec.pvcs[4].size: Invalid value: "-1Gi": must be more than 0`,
			},
		},
		"claims: 101": {
			change: func(d *deployment) { d.Spec.PVCs = make([]nvidiav1alpha1.PVC, 101) },
			want:   []string{`spec.pvcs: Too many: 101: must have at most 100 items`},
		},
		"backend framework: unknown": {
			change: func(d *deployment) { d.Spec.BackendFramework = "tgi" },
			want:   []string{`spec.backendFramework: Unsupported value: "tgi": supported values: "sglang", "trtllm", "vllm"`},
		},
		"rollout bounds: each where it is written": {
			change: func(d *deployment) {
				d.Annotations = map[string]string{"nvidia.com/deployment-strategy": "BlueGreen"}
				d.Spec.Annotations = map[string]string{"nvidia.com/deployment-rolling-update-max-surge": "many"}
				d.Spec.Services["Worker"].Annotations = map[string]string{"nvidia.com/deployment-rolling-update-max-unavailable": "-1"}
			},
			want: []string{
				`metadata.annotations[nvidia.com/deployment-strategy]: Invalid value: "BlueGreen": must be RollingUpdate or Recreate`,
				`spec.annotations[nvidia.com/deployment-rolling-update-max-surge]: Invalid value: "many": must be a number of replicas or a percentage, like "1" or "25%"`,
				`spec.services[Worker].annotations[nvidia.com/deployment-rolling-update-max-unavailable]: Invalid value: "-1": must be a number of replicas or a percentage, like "1" or "25%"`,
			},
		},
		"rollout bounds: of all workers": {
			change: func(d *deployment) {
				d.Annotations = map[string]string{"trellis.dev/rolling-update-max-surge": "half"}
			},
			want: []string{
				`metadata.annotations[trellis.dev/rolling-update-max-surge]: Invalid value: "half": must be a number of steps or a percentage, like "1" or "25%"`,
			},
		},
		"rollout bounds: control of an update": {
			change: func(d *deployment) {
				d.Annotations = map[string]string{"trellis.dev/rollout-paused": "yes", "trellis.dev/rollout-aborted": "latest", "trellis.dev/rollout-partition": "some"}
			},
			want: []string{
				`metadata.annotations[trellis.dev/rollout-paused]: Invalid value: "yes": must be "true" or "false"`,
				`metadata.annotations[trellis.dev/rollout-aborted]: Invalid value: "latest": must be a generation of workers: 8 hexadecimal digits, like "3f2a9c01"`,
				`metadata.annotations[trellis.dev/rollout-partition]: Invalid value: "some": must be a number of steps or a percentage, like "1" or "25%"`,
			},
		},
		"rollout bounds: of all workers, both 0": {
			change: func(d *deployment) {
				d.Annotations = map[string]string{"trellis.dev/rolling-update-max-surge": "0", "trellis.dev/rolling-update-max-unavailable": "0"}
			},
			want: []string{`metadata.annotations[trellis.dev/rolling-update-max-surge]: Invalid value: "0": must not be 0 together with ` +
				`trellis.dev/rolling-update-max-unavailable: no replica could be replaced`},
		},
		"rollout bounds: both 0": {
			change: func(d *deployment) {
				d.Annotations = map[string]string{"nvidia.com/deployment-rolling-update-max-surge": "0", "nvidia.com/deployment-rolling-update-max-unavailable": "0%"}
			},
			want: []string{`metadata.annotations[nvidia.com/deployment-rolling-update-max-surge]: Invalid value: "0": must not be 0 together with ` +
				`nvidia.com/deployment-rolling-update-max-unavailable: no replica could be replaced`},
		},
		"restart: id and type": {
			change: func(d *deployment) {
				d.Spec.Restart = &nvidiav1alpha1.Restart{Strategy: &nvidiav1alpha1.RestartStrategy{Type: "Random"}}
			},
			want: []string{
				`spec.restart.id: Required value: spec.restart.id is required; each new id starts one restart`,
				`spec.restart.strategy.type: Unsupported value: "Random": supported values: "Parallel", "Sequential"`,
			},
		},
		"restart order: parallel": {
			change: func(d *deployment) {
				d.Spec.Restart = &nvidiav1alpha1.Restart{ID: "1", Strategy: &nvidiav1alpha1.RestartStrategy{Type: "Parallel", Order: []string{"Worker"}}}
			},
			want: []string{`spec.restart.strategy.order: Forbidden: cannot be specified when strategy is parallel; remove it`},
		},
		"restart order: twice, unknown, too few": {
			change: func(d *deployment) {
				d.Spec.Services["Planner"] = &componentSpec{}
				d.Spec.Restart = &nvidiav1alpha1.Restart{ID: "1", Strategy: &nvidiav1alpha1.RestartStrategy{Order: []string{"Worker", "Worker", "Cook"}}}
			},
			want: []string{
				`spec.restart.strategy.order[1]: Duplicate value: "Worker": must be unique`,
				`spec.restart.strategy.order[2]: Not found: "Cook": contains unknown service: Cook`,
				`spec.restart.strategy.order: Invalid value: 2: must have the same number of unique services as the deployment, which has 3; or leave it out for alphabetical order`,
			},
		},
		"topology name: constraint on a service only": {
			change: func(d *deployment) { d.Spec.TopologyConstraint = nil },
			want: []string{`spec.topologyConstraint.topologyProfile: Required value: topologyProfile is required: spec.topologyConstraint with topologyProfile is ` +
				`required when any topology constraint is set (at spec or service level); name a ClusterTopology there`},
		},
		"topology name: empty": {
			change: func(d *deployment) { d.Spec.TopologyConstraint.TopologyProfile = "" },
			want: []string{`spec.topologyConstraint.topologyProfile: Required value: spec.topologyConstraint.topologyProfile is required when any topology constraint is set; ` +
				`name a ClusterTopology there`},
		},
		"deployment constraint: nothing to pack": {
			change: func(d *deployment) {
				d.Spec.TopologyConstraint.PackDomain = ""
				d.Spec.Services["Worker"].TopologyConstraint = nil
			},
			want: []string{`spec.topologyConstraint.packDomain: Required value: packDomain is required when no service topologyConstraint is set: name a level here or on a service`},
		},
		"deployment constraint: format": {
			change: func(d *deployment) {
				d.Spec.TopologyConstraint.PackDomain, d.Spec.TopologyConstraint.PreferredPackDomain = "Zone", strings.Repeat("r", 64)
			},
			want: []string{
				`spec.topologyConstraint.packDomain: Invalid value: "Zone": packDomain "Zone" ` + badDomain,
				`spec.topologyConstraint.preferredPackDomain: Invalid value: "` + strings.Repeat("r", 64) + `": preferredPackDomain "` + strings.Repeat("r", 64) + `" ` + badDomain,
			},
		},
	})
}

func TestGraphAccepts(t *testing.T) {
	tests := map[string]func(*deployment){
		"the plain one": func(*deployment) {},
		"no constraint at all": func(d *deployment) {
			d.Spec.TopologyConstraint, d.Spec.Services["Worker"].TopologyConstraint = nil, nil
		},
		"topology and a service": func(d *deployment) { d.Spec.TopologyConstraint.PackDomain = "" },
		"preferred only": func(d *deployment) {
			d.Spec.TopologyConstraint = &nvidiav1alpha1.SpecTopologyConstraint{TopologyProfile: "gb200", PreferredPackDomain: "rack"}
			d.Spec.Services["Worker"].TopologyConstraint = nil
		},
		"long name":                      func(d *deployment) { d.Name = strings.Repeat("a", 253) },
		"no name yet":                    func(d *deployment) { d.Name, d.GenerateName = "", "llm-" },
		"a service of null":              func(d *deployment) { d.Spec.Services["Planner"] = nil },
		"scaled to zero":                 worker(func(s *componentSpec) { s.Replicas = ptr.To[int32](0) }),
		"replicas left out":              worker(func(s *componentSpec) { s.Replicas = nil }),
		"node count left out":            worker(func(s *componentSpec) { s.Multinode.NodeCount = 0 }),
		"odd component type":             worker(func(s *componentSpec) { s.ComponentType = "main" }),
		"shared memory off":              worker(func(s *componentSpec) { s.SharedMemory = &nvidiav1alpha1.SharedMemorySpec{Disabled: true} }),
		"a name like a pod's":            func(d *deployment) { d.Spec.Services["worker-1"] = &componentSpec{} },
		"-pods of a single-node service": func(d *deployment) { d.Spec.Services["Frontend-pods"] = &componentSpec{} },
		"every kind of resource": limits(nvidiav1alpha1.ResourceItem{CPU: "500m", Memory: "1.5Gi", GPU: "8", GPUType: "gpu.intel.com/xe",
			Custom: map[string]string{"ephemeral-storage": "10Gi", "rdma/ib": "8", "networking.gke.io.networks/rdma-0.IP": "1"}}),
		"requests only": worker(func(s *componentSpec) {
			s.Resources = &nvidiav1alpha1.Resources{Requests: &nvidiav1alpha1.ResourceItem{GPU: "8"}}
		}),
		"restart in an order": func(d *deployment) {
			d.Spec.Restart = &nvidiav1alpha1.Restart{ID: "1", Strategy: &nvidiav1alpha1.RestartStrategy{Order: []string{"Worker", "Frontend"}}}
		},
		"annotations": func(d *deployment) {
			d.Annotations = map[string]string{annotationOriginVersion: "1.1.0-dev", annotationExecutorBackend: "ray", annotationDiscoveryMode: "container"}
		},
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			if errs := Graph(written(newGraph(change))); len(errs) > 0 {
				t.Errorf("refused: %v", errs.ToAggregate())
			}
		})
	}
}
