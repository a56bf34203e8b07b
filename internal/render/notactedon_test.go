// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	nvidiav1alpha1 "github.com/trellis-k8s/trellis/api/nvidia/v1alpha1"
	nvidiav1beta1 "github.com/trellis-k8s/trellis/api/nvidia/v1beta1"
	"github.com/trellis-k8s/trellis/internal/provider/specs"
	"github.com/trellis-k8s/trellis/test/testutil/hub"
)

func TestNotActedOn(t *testing.T) {
	dgd := &nvidiav1alpha1.DynamoGraphDeployment{}
	const text = `
metadata:
  annotations: {nvidia.com/kai-scheduler-queue: q, nvidia.com/enable-metrics: "false", trellis.dev/rollout-ask-frontends: "true"}
spec:
  annotations: {nvidia.com/volcano-queue: q}
  pvcs: [{name: a}, {name: b, create: true}]
  providerOverride: {a: b}
  experimental: {a: b}
  services:
    none: null
    front: {componentType: frontend, modelRef: {name: m}, ingress: {enabled: true, host: h, useVirtualService: true}}
    plain: {componentType: frontend, ingress: {enabled: true, host: h}}
    picker: {componentType: epp, eppConfig: {config: {a: b}}}
    quiet:
      ingress: {enabled: false}
      scalingAdapter: {}
      gpuMemoryService: {}
      failover: {}
    loud:
      ingress: {enabled: true, host: h}
      modelRef: {name: m}
      minAvailable: 1
      scalingAdapter: {enabled: true}
      annotations: {nvidia.com/workload-provider: grove}
      eppConfig: {config: {a: b}}
      checkpoint: {enabled: true, checkpointRef: a}
      gpuMemoryService: {enabled: true}
      failover: {enabled: true}
      providerOverride: {a: b}
      runtimeVersionOverride: "1.0"
      multinode: {nodeCount: 2, leader: {a: b}, worker: {a: b}}
`
	if err := yaml.UnmarshalStrict([]byte(text), dgd); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"metadata.annotations[nvidia.com/kai-scheduler-queue]", "metadata.annotations[trellis.dev/rollout-ask-frontends]",
		"spec.annotations[nvidia.com/volcano-queue]",
		"spec.providerOverride", "spec.experimental",
		"spec.services[front].ingress.useVirtualService",
		"spec.services[loud].annotations[nvidia.com/workload-provider]",
	}
	for _, field := range []string{"ingress", "eppConfig", "checkpoint", "gpuMemoryService", "failover", "providerOverride", "multinode.leader", "multinode.worker"} {
		want = append(want, "spec.services[loud]."+field)
	}
	if diff := cmp.Diff(want, notActedOn(hub.Of(dgd), "")); diff != "" {
		t.Error(diff)
	}
}

// TestUpdatesOfGrove: how replicas are replaced is Grove's to say under Grove, and Trellis' under all others. A rolling update is what Grove does.
func TestUpdatesOfGrove(t *testing.T) {
	const text = `
metadata: {annotations: {trellis.dev/provider: PROVIDER, nvidia.com/deployment-strategy: RollingUpdate, nvidia.com/deployment-rolling-update-max-surge: "1",
  trellis.dev/rolling-update-max-surge: "1"}}
spec:
  annotations: {nvidia.com/deployment-strategy: Recreate, trellis.dev/rolling-update-max-unavailable: "1"}
  services:
    one: {annotations: {nvidia.com/deployment-strategy: Recreate, nvidia.com/deployment-rolling-update-max-unavailable: "0"}}
    two: {annotations: {nvidia.com/deployment-strategy: RollingUpdate}}
`
	for _, provider := range specs.All {
		dgd := &nvidiav1alpha1.DynamoGraphDeployment{}
		if err := yaml.UnmarshalStrict([]byte(strings.ReplaceAll(text, "PROVIDER", provider.Name)), dgd); err != nil {
			t.Fatal(err)
		}
		want := []string{"spec.annotations[trellis.dev/rolling-update-max-unavailable]"}
		if provider.Name == specs.Grove.Name {
			want = []string{
				"metadata.annotations[nvidia.com/deployment-rolling-update-max-surge]@Grove", "metadata.annotations[trellis.dev/rolling-update-max-surge]@Grove",
				"spec.annotations[nvidia.com/deployment-strategy]@Grove", "spec.annotations[trellis.dev/rolling-update-max-unavailable]",
				"spec.services[one].annotations[nvidia.com/deployment-strategy]@Grove", "spec.services[one].annotations[nvidia.com/deployment-rolling-update-max-unavailable]@Grove",
			}
		}
		if diff := cmp.Diff(want, notActedOn(hub.Of(dgd), "")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", provider.Name, diff)
		}
	}
}

// TestMinAvailableIsActedOn: of components that are placed as gangs. The pods of others wait for nothing.
func TestMinAvailableIsActedOn(t *testing.T) {
	const text = `
metadata: {annotations: {trellis.dev/provider: PROVIDER}}
spec:
  services:
    gang: {minAvailable: 2, replicas: 2, multinode: {nodeCount: 2}}
    rack: {minAvailable: 2, replicas: 2, topologyConstraint: {packDomain: rack}}
    plain: {minAvailable: 2, replicas: 2}
    one: {minAvailable: 1}
`
	const whole = "  topologyConstraint: {topologyProfile: p, packDomain: zone}\n"
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"Gates":                            {strings.ReplaceAll(text, "PROVIDER", specs.Gates.Name), []string{"spec.services[plain].minAvailable"}},
		"KAI":                              {strings.ReplaceAll(text, "PROVIDER", specs.KAI.Name), []string{"spec.services[plain].minAvailable"}},
		"Grove":                            {strings.ReplaceAll(text, "PROVIDER", specs.Grove.Name), nil},
		"Gates, the whole graph in a zone": {strings.ReplaceAll(text, "PROVIDER", specs.Gates.Name) + whole, nil},
	} {
		dgd := &nvidiav1alpha1.DynamoGraphDeployment{}
		if err := yaml.UnmarshalStrict([]byte(c.text), dgd); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, notActedOn(hub.Of(dgd), "")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestPreferredRulesAreNotActedOn: a pod that Trellis places is pinned to its host, so preferred rules about other pods decide nothing. Those of other
// pods do, and so do required rules.
func TestPreferredRulesAreNotActedOn(t *testing.T) {
	const text = `
metadata: {annotations: {trellis.dev/provider: PROVIDER}}
spec:
  services:
    gang: {multinode: {nodeCount: 2}, extraPodSpec: RULES}
    rack: {topologyConstraint: {packDomain: rack}, extraPodSpec: RULES}
    plain: {extraPodSpec: RULES}
    required: {multinode: {nodeCount: 2}, extraPodSpec: {topologySpreadConstraints: [{whenUnsatisfiable: DoNotSchedule}],
      affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: zone}]},
        nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1}]}}}}
`
	const rules = `{topologySpreadConstraints: [{whenUnsatisfiable: ScheduleAnyway}], affinity: {
      podAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1}]},
      podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1}]}}}`
	var want []string
	for _, component := range []string{"gang", "rack"} {
		for _, field := range []string{"affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution",
			"affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution", "topologySpreadConstraints"} {
			want = append(want, "spec.services["+component+"].extraPodSpec."+field)
		}
	}
	for _, provider := range []string{specs.Gates.Name, specs.PodGroup.Name, specs.KAI.Name, specs.Grove.Name} {
		dgd := &nvidiav1alpha1.DynamoGraphDeployment{}
		if err := yaml.UnmarshalStrict([]byte(strings.NewReplacer("PROVIDER", provider, "RULES", rules).Replace(text)), dgd); err != nil {
			t.Fatal(err)
		}
		var of []string
		if provider != specs.Grove.Name {
			for _, field := range want {
				of = append(of, field+"@"+provider)
			}
		}
		if diff := cmp.Diff(of, notActedOn(hub.Of(dgd), "")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", provider, diff)
		}
	}
}

// TestQueueIsActedOn: the queue of a deployment is KAI's; without KAI, or elsewhere in it, it is no one's.
func TestQueueIsActedOn(t *testing.T) {
	const own, spec, component = "metadata.annotations[nvidia.com/kai-scheduler-queue]", "spec.annotations[nvidia.com/kai-scheduler-queue]", "spec.services[A].annotations[nvidia.com/kai-scheduler-queue]"
	for name, c := range map[string]struct {
		annotation, scheduler, preset string
		want                          []string
	}{
		"Gates":               {want: []string{own, spec, component}},
		"KAI":                 {annotation: specs.KAI.Name, want: []string{spec, component}},
		"Grove":               {annotation: specs.Grove.Name, want: []string{spec, component}},
		"KAI by the flag":     {preset: specs.KAI.Name, want: []string{spec, component}},
		"KAI by the pods":     {scheduler: specs.KAI.SchedulerName, want: []string{spec, component}},
		"Gates, not the flag": {preset: specs.KAI.Name, annotation: specs.Gates.Name, want: []string{own, spec, component}},
	} {
		queue := map[string]string{AnnotationQueue: "q"}
		dgd := &nvidiav1alpha1.DynamoGraphDeployment{}
		dgd.Annotations = map[string]string{AnnotationQueue: "q", AnnotationProvider: c.annotation}
		dgd.Spec.Annotations = queue
		extra := &nvidiav1alpha1.ExtraPodSpec{PodSpec: &corev1.PodSpec{SchedulerName: c.scheduler}}
		dgd.Spec.Services = map[string]*nvidiav1alpha1.ServiceSpec{"A": {Annotations: queue, ExtraPodSpec: extra}}
		if diff := cmp.Diff(c.want, notActedOn(hub.Of(dgd), c.preset)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestDeterministic: the same deployment, its maps filled in another order and read back from JSON, gives the same graph.
func TestDeterministic(t *testing.T) {
	dgd := fromYAML[nvidiav1alpha1.DynamoGraphDeployment](t, "testdata/graphs/everything.yaml")
	first := objects(t, dgd)
	for range 30 {
		raw, err := json.Marshal(dgd)
		if err != nil {
			t.Fatal(err)
		}
		dgd = &nvidiav1alpha1.DynamoGraphDeployment{}
		if err := json.Unmarshal(raw, dgd); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(first, objects(t, dgd)); diff != "" {
			t.Fatal(diff)
		}
	}
}

func objects(t *testing.T, dgd *nvidiav1alpha1.DynamoGraphDeployment) string {
	t.Helper()
	g, err := Resolve(hub.Of(dgd), Inputs{Topology: hallOne(t), Provider: specs.Gates.Name})
	if err != nil {
		t.Fatal(err)
	}
	return toYAML(t, g.ScalingGroups()) + toYAML(t, g.KubernetesServices())
}

func TestRevisionIsOfTheRolesOnly(t *testing.T) {
	base := constraints{topology: "hall-one", graph: "zone"}.deployment()
	base.Spec.Services["Frontend"].ComponentType = "frontend"
	revisionOf := func(change func(*nvidiav1alpha1.DynamoGraphDeployment)) string {
		dgd := base.DeepCopy()
		change(dgd)
		g, err := Resolve(hub.Of(dgd), Inputs{Topology: hallOne(t)})
		if err != nil {
			t.Fatal(err)
		}
		return g.Components[0].Revision
	}
	was := revisionOf(func(*nvidiav1alpha1.DynamoGraphDeployment) {})
	tests := map[string]struct {
		change func(*nvidiav1alpha1.DynamoGraphDeployment)
		same   bool
	}{
		"replicas": {func(d *nvidiav1alpha1.DynamoGraphDeployment) { d.Spec.Services["Decode"].Replicas = new(int32) }, true},
		"topology": {func(d *nvidiav1alpha1.DynamoGraphDeployment) { d.Spec.TopologyConstraint.PackDomain = "rack" }, true},
		"another service": {func(d *nvidiav1alpha1.DynamoGraphDeployment) {
			d.Spec.Services["Frontend"].Envs = []corev1.EnvVar{{Name: "X"}}
		}, true},
		"nodes":            {func(d *nvidiav1alpha1.DynamoGraphDeployment) { d.Spec.Services["Decode"].Multinode.NodeCount = 3 }, false},
		"a label":          {func(d *nvidiav1alpha1.DynamoGraphDeployment) { d.Spec.Labels = map[string]string{"a": "b"} }, false},
		"the subcomponent": {func(d *nvidiav1alpha1.DynamoGraphDeployment) { d.Spec.Services["Decode"].SubComponentType = "decode" }, false},
	}
	for name, tc := range tests {
		if got := revisionOf(tc.change); (got == was) != tc.same {
			t.Errorf("%s: %s, was %s", name, got, was)
		}
	}
}

// notActedOn is NotActedOn a deployment as it is stored, as PATH or PATH@PROVIDER in v1alpha1.
func notActedOn(dgd *nvidiav1beta1.DynamoGraphDeployment, preset string) []string {
	var out []string
	for _, ignored := range NotActedOn(dgd, alphaOnly(dgd), preset) {
		text := ignored.Path.In("v1alpha1")
		if ignored.Provider != "" {
			text += "@" + ignored.Provider
		}
		out = append(out, text)
	}
	return out
}

func alphaOnly(dgd *nvidiav1beta1.DynamoGraphDeployment) nvidiav1alpha1.AlphaOnly {
	out, err := nvidiav1alpha1.AlphaOnlyOf(dgd)
	if err != nil {
		panic(err)
	}
	return out
}
