// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package newpod

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"sigs.k8s.io/yaml"
)

// read is an object of YAML.
func read[T any](t *testing.T, text string) *T {
	t.Helper()
	out := new(T)
	if err := yaml.UnmarshalStrict([]byte(text), out); err != nil {
		t.Fatal(err)
	}
	return out
}

const (
	gvisor = `{metadata: {name: gvisor}, handler: runsc, overhead: {podFixed: {memory: 1Gi}},
		scheduling: {nodeSelector: {sandbox: gvisor}, tolerations: [{key: sandbox, operator: Exists}]}}`
	plainRuntime = `{metadata: {name: plain}, handler: runc}`
	someDefaults = `{metadata: {namespace: ns, name: defaults}, spec: {limits: [{type: Container, default: {memory: 8Gi}, defaultRequest: {cpu: 2}}]}}`
	onlyMax      = `{metadata: {namespace: ns, name: bounds}, spec: {limits: [{type: Container, max: {memory: 4Gi}, min: {cpu: 500m}}]}}`
	ratioAndPod  = `{metadata: {namespace: ns, name: tight}, spec: {limits: [{type: Container, maxLimitRequestRatio: {cpu: 2}}, {type: Pod, max: {memory: 6Gi}}]}}`
	elsewhere    = `{metadata: {namespace: other, name: other}, spec: {limits: [{type: Container, default: {cpu: 99}}]}}`
)

// admissions are pods as written, in the namespace ns, and as stored, with what is noted. Tolerations of nodes that fail are left out where they are
// the last.
var admissions = map[string]struct {
	objects Objects
	runtime []string
	limits  []string
	pod     string
	want    string
	notes   []string
}{
	"limits are requests": {
		pod:  `containers: [{name: main, resources: {limits: {cpu: 2, x/gpu: 1}, requests: {cpu: 1}}}], initContainers: [{name: i, resources: {limits: {cpu: 3}}}]`,
		want: `{containers: [{name: main, resources: {limits: {cpu: 2, x/gpu: 1}, requests: {cpu: 1, x/gpu: 1}}}], initContainers: [{name: i, resources: {limits: {cpu: 3}, requests: {cpu: 3}}}]}`,
	},
	"ports in the network of the host": {
		pod:  `hostNetwork: true, containers: [{name: main, ports: [{containerPort: 80}, {containerPort: 81, hostPort: 8081}]}]`,
		want: `{hostNetwork: true, containers: [{name: main, ports: [{containerPort: 80, hostPort: 80}, {containerPort: 81, hostPort: 8081}]}]}`,
	},
	"ports in a network of its own": {pod: `containers: [{name: main, ports: [{containerPort: 80}]}]`, want: `{containers: [{name: main, ports: [{containerPort: 80}]}]}`},
	"a RuntimeClass": {
		runtime: []string{gvisor, plainRuntime}, pod: `runtimeClassName: gvisor, nodeSelector: {a: b}, containers: [{name: main}]`,
		want: `{runtimeClassName: gvisor, overhead: {memory: 1Gi}, nodeSelector: {a: b, sandbox: gvisor}, containers: [{name: main}], tolerations: [
			{key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 300},
			{key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 300}, {key: sandbox, operator: Exists}]}`,
	},
	"a RuntimeClass that adds nothing": {
		runtime: []string{plainRuntime}, pod: `runtimeClassName: plain, containers: [{name: main}]`, want: `{runtimeClassName: plain, containers: [{name: main}]}`,
	},
	"a RuntimeClass that is not known": {
		runtime: []string{plainRuntime}, pod: `runtimeClassName: kata, containers: [{name: main}]`, want: `{runtimeClassName: kata, containers: [{name: main}]}`,
		notes: []string{`RuntimeClass "kata" is not among the objects: planned without its overhead, node selector and tolerations`},
	},
	"a RuntimeClass against the node selector": {
		runtime: []string{gvisor}, pod: `runtimeClassName: gvisor, nodeSelector: {sandbox: kata}, containers: [{name: main}]`,
		want:  `{runtimeClassName: gvisor, overhead: {memory: 1Gi}, nodeSelector: {sandbox: kata}, containers: [{name: main}]}`,
		notes: []string{`its pods would be refused: their node selector has sandbox=kata, and that of RuntimeClass "gvisor" has gvisor`},
	},
	"another overhead": {
		runtime: []string{gvisor}, pod: `runtimeClassName: gvisor, overhead: {memory: 2Gi}, containers: [{name: main}]`,
		want:  `{runtimeClassName: gvisor, overhead: {memory: 2Gi}, containers: [{name: main}]}`,
		notes: []string{`its pods would be refused: their overhead is not that of RuntimeClass "gvisor"`},
	},
	"an overhead without a RuntimeClass": {
		pod: `overhead: {memory: 2Gi}, containers: [{name: main}]`, want: `{overhead: {memory: 2Gi}, containers: [{name: main}]}`,
		notes: []string{`its pods would be refused: they have an overhead and no RuntimeClass`},
	},
	"defaults of a LimitRange": {
		limits: []string{someDefaults, elsewhere}, pod: `containers: [{name: main, resources: {requests: {memory: 1Gi}}}, {name: side, resources: {limits: {cpu: 1}}}]`,
		want: `{containers: [{name: main, resources: {limits: {memory: 8Gi}, requests: {memory: 1Gi, cpu: 2}}},
			{name: side, resources: {limits: {cpu: 1, memory: 8Gi}, requests: {cpu: 1, memory: 8Gi}}}]}`,
	},
	"defaults of a maximum and a minimum": {
		limits: []string{onlyMax}, pod: `containers: [{name: main}]`,
		want: `{containers: [{name: main, resources: {limits: {memory: 4Gi}, requests: {memory: 4Gi, cpu: 500m}}}]}`,
	},
	"beyond the bounds of a LimitRange": {
		limits: []string{onlyMax}, pod: `containers: [{name: main, resources: {limits: {memory: 5Gi, cpu: 100m}}}]`,
		want: `{containers: [{name: main, resources: {limits: {memory: 5Gi, cpu: 100m}, requests: {memory: 5Gi, cpu: 100m}}}]}`,
		notes: []string{
			`its pods would be refused: LimitRange bounds: container main: cpu request 100m is below the minimum of 500m`,
			`its pods would be refused: LimitRange bounds: container main: memory limit 5Gi is above the maximum of 4Gi`,
		},
	},
	"a request above a default limit": {
		limits: []string{someDefaults}, pod: `containers: [{name: main, resources: {requests: {memory: 9Gi, cpu: 1}}}]`,
		want:  `{containers: [{name: main, resources: {limits: {memory: 8Gi}, requests: {memory: 9Gi, cpu: 1}}}]}`,
		notes: []string{`its pods would be refused: container main: memory request 9Gi is above the limit of 8Gi`},
	},
	"beyond the bounds of a pod": {
		limits: []string{ratioAndPod}, pod: `containers: [{name: a, resources: {requests: {cpu: 1, memory: 4Gi}, limits: {cpu: 3, memory: 4Gi}}}, {name: b, resources: {limits: {cpu: 1, memory: 4Gi}}}]`,
		want: `{containers: [{name: a, resources: {requests: {cpu: 1, memory: 4Gi}, limits: {cpu: 3, memory: 4Gi}}}, {name: b, resources: {requests: {cpu: 1, memory: 4Gi}, limits: {cpu: 1, memory: 4Gi}}}]}`,
		notes: []string{
			`its pods would be refused: LimitRange tight: container a: cpu limit is more than 2 times the request`,
			`its pods would be refused: LimitRange tight: memory limit 8Gi is above the maximum of 6Gi`,
		},
	},
	"no bounds where they are needed": {
		limits: []string{ratioAndPod}, pod: `containers: [{name: a}]`, want: `{containers: [{name: a}]}`,
		notes: []string{
			`its pods would be refused: LimitRange tight: container a: cpu limit is more than 2 times the request`,
			`its pods would be refused: LimitRange tight: memory needs a limit of at most 6Gi`,
		},
	},
	"resources of the pod": {
		pod:  `resources: {limits: {cpu: 4, memory: 8Gi}}, containers: [{name: a, resources: {requests: {cpu: 1}}}]`,
		want: `{resources: {limits: {cpu: 4, memory: 8Gi}, requests: {cpu: 1, memory: 8Gi}}, containers: [{name: a, resources: {requests: {cpu: 1}}}]}`,
	},
	"a priority class": {
		objects: Objects{PriorityClasses: []*schedulingv1.PriorityClass{{Value: 5, GlobalDefault: true}}},
		pod:     `containers: [{name: a}]`, want: `{priority: 5, containers: [{name: a}]}`,
	},
	"a priority class that every cluster has": {
		pod: `priorityClassName: system-node-critical, containers: [{name: a}]`, want: `{priorityClassName: system-node-critical, priority: 2000001000, containers: [{name: a}]}`,
	},
	"a priority class that is not known": {
		pod: `priorityClassName: high, containers: [{name: a}]`, want: `{priorityClassName: high, containers: [{name: a}]}`,
		notes: []string{`PriorityClass "high" is not among the objects: planned without priority, so that nothing frees capacity`},
	},
	"tolerations of its own": {
		pod: `containers: [{name: a}], tolerations: [{operator: Exists, effect: NoExecute}]`, want: `{containers: [{name: a}], tolerations: [{operator: Exists, effect: NoExecute}]}`,
	},
}

func TestAdmit(t *testing.T) {
	for name, tc := range admissions {
		t.Run(name, func(t *testing.T) {
			for _, text := range tc.runtime {
				tc.objects.RuntimeClasses = append(tc.objects.RuntimeClasses, read[nodev1.RuntimeClass](t, text))
			}
			for _, text := range tc.limits {
				tc.objects.LimitRanges = append(tc.objects.LimitRanges, read[corev1.LimitRange](t, text))
			}
			pod := &corev1.Pod{Spec: *read[corev1.PodSpec](t, "{"+tc.pod+"}")}
			pod.Namespace = "ns"
			before := pod.DeepCopy()
			got, notes := tc.objects.Admit(pod)
			if diff := cmp.Diff(before, pod); diff != "" {
				t.Errorf("the pod itself is changed:\n%s", diff)
			}
			want := read[corev1.PodSpec](t, tc.want)
			if len(want.Tolerations) == 0 {
				got.Spec.Tolerations = got.Spec.Tolerations[:len(got.Spec.Tolerations)-2]
			}
			if diff := cmp.Diff(texts(t, want), texts(t, &got.Spec)); diff != "" {
				t.Errorf("stored (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.notes, notes); diff != "" {
				t.Errorf("notes (-want +got):\n%s", diff)
			}
		})
	}
}

func texts(t *testing.T, spec *corev1.PodSpec) string {
	t.Helper()
	out, err := yaml.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func TestRefusedBy(t *testing.T) {
	o := Objects{}
	for _, text := range []string{ratioAndPod, onlyMax, someDefaults, elsewhere} {
		o.LimitRanges = append(o.LimitRanges, read[corev1.LimitRange](t, text))
	}
	for limits, want := range map[string][]string{
		"{memory: 4Gi, cpu: 1}": nil, "{memory: 5Gi, cpu: 1}": {"bounds"}, "{memory: 7Gi, cpu: 1}": {"bounds", "tight"},
	} {
		pod := &corev1.Pod{Spec: *read[corev1.PodSpec](t, "{containers: [{name: main, resources: {limits: "+limits+"}}]}")}
		pod.Namespace = "ns"
		if diff := cmp.Diff(want, o.RefusedBy(pod)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", limits, diff)
		}
	}
}
