// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestGraphOfBothVersions: rules about the deployment, each in both versions.
func TestGraphOfBothVersions(t *testing.T) {
	const (
		shared = `metadata: {name: llm, annotations: {nvidia.com/dynamo-kube-discovery-mode: container}}`
		policy = "experimental: {kvTransferPolicy: "
		at     = "spec.experimental.kvTransferPolicy"
	)
	inPod := gpuBeta + ", experimental: {gpuMemoryService: {}, failover: {}}"
	inPodAlpha := gpuAlpha + ", gpuMemoryService: {enabled: true}, failover: {enabled: true}"
	const discovery = `metadata.annotations[nvidia.com/dynamo-kube-discovery-mode]: Invalid value: "": must be "container" with failover of mode `
	for name, tc := range map[string]struct{ version, spec, worker, want string }{
		"devices between pods of another framework": {"v1beta1", "backendFramework: sglang", gpuBeta + ", experimental: {gpuMemoryService: {mode: InterPod}}",
			worker0 + `experimental.gpuMemoryService.mode: Invalid value: "InterPod": is for vLLM only; set spec.backendFramework to vllm, or use mode IntraPod`},
		"failover in the pod":                   {"v1beta1", "env: []", inPod, discovery + "IntraPod"},
		"failover in the pod of v1alpha1":       {"v1alpha1", "envs: []", inPodAlpha, discovery + "intraPod"},
		"an override of a component's object":   {"v1beta1", groveOverride, mainBeta, "spec.providerOverride.value: Invalid value: must hold spec.template.topologyConstraint and nothing else, with topologyName and pack {required, preferred}"},
		"a policy of v1alpha1":                  {"v1alpha1", policy + "{labelKey: a/b, domain: rack}}", mainAlpha, ""},
		"a policy of v1alpha1 with two":         {"v1alpha1", policy + "{labelKey: a/b, clusterTopologyName: c, domain: rack}}", mainAlpha, at + ": Invalid value: exactly one of labelKey or clusterTopologyName is required; keep one"},
		"a policy of v1alpha1 without a level":  {"v1alpha1", policy + "{labelKey: a/b}}", mainAlpha, at + `.domain: Invalid value: "": name the level, e.g. rack; must match ^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`},
		"a policy of v1alpha1 with a bad key":   {"v1alpha1", policy + "{labelKey: a/-b, domain: rack}}", mainAlpha, at + `.labelKey: Invalid value: "a/-b": not a node label key: name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`},
		"a policy of v1alpha1 with more fields": {"v1alpha1", policy + "{labelKey: a/b, domain: rack, level: 1}}", mainAlpha, at + `: Invalid value: cannot be read: json: unknown field "level"`},
		"other experiments of v1alpha1":         {"v1alpha1", "experimental: {x: {y: 1}}", mainAlpha, ""},
	} {
		if diff := cmp.Diff(tc.want, saysOfCreate(t, tc.version, tc.spec, tc.worker)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	for version, worker := range map[string]string{"v1beta1": inPod, "v1alpha1": inPodAlpha} {
		w := manifest(t, version, "envs: []", worker)
		w.Annotations = map[string]string{annotationDiscoveryMode: "container"}
		if errs := GraphCreate(w); len(errs) > 0 {
			t.Errorf("%s with containers discovered: %v", version, errs)
		}
	}
}

// TestRulesRatchet: what an object already is does not block another change of it, and what a change makes of it must be right.
func TestRulesRatchet(t *testing.T) {
	const config = `, eppConfig: {configMapRef: {name: c, key: k}}`
	noImage, image := "podTemplate: {spec: {containers: [{name: main}]}}", mainBeta
	side := `podTemplate: {spec: {containers: [{name: main, image: i}, {name: side}]}}`
	for name, tc := range map[string]struct{ version, old, now, want string }{
		"a picker that came with configuration":    {"v1beta1", pickerBeta("d:1.5.0", config), pickerBeta("d:1.5.0", config) + ", replicas: 0", ""},
		"a newer image of such a picker":           {"v1alpha1", pickerAlpha("d:1.5.0", config), pickerAlpha("d:1.5.1", config), ""},
		"a picker that becomes the runtime's":      {"v1beta1", pickerBeta("d:1.4.0", config), pickerBeta("d:1.5.0", ""), ""},
		"the image alone":                          {"v1beta1", pickerBeta("d:1.4.0", config), pickerBeta("d:1.5.0", config), worker0 + "eppConfig: Forbidden"},
		"back to an early picker":                  {"v1beta1", pickerBeta("d:1.5.0", ""), pickerBeta("d:1.4.0", config), ""},
		"back by the image alone":                  {"v1alpha1", pickerAlpha("d:1.5.0", ""), pickerAlpha("d:1.4.0", ""), workerOf + "eppConfig: Required"},
		"devices of a frontend that was stored":    {"v1beta1", "type: frontend, experimental: {gpuMemoryService: {}}", "type: frontend, replicas: 2, experimental: {gpuMemoryService: {}}", ""},
		"devices for a frontend":                   {"v1beta1", strings.Replace(gpuBeta, "type: worker, ", "", 1), strings.Replace(gpuBeta, "worker", "frontend", 1) + ", experimental: {gpuMemoryService: {}}", worker0 + "experimental.gpuMemoryService: Forbidden"},
		"a frontend of several nodes that was":     {"v1alpha1", mainAlpha + ", componentType: frontend, multinode: {nodeCount: 2}", mainAlpha + ", componentType: frontend, replicas: 2, multinode: {nodeCount: 2}", ""},
		"more nodes of it":                         {"v1alpha1", mainAlpha + ", componentType: frontend, multinode: {nodeCount: 2}", mainAlpha + ", componentType: frontend, multinode: {nodeCount: 3}", workerOf + "multinode: Invalid"},
		"a type for several nodes":                 {"v1beta1", mainBeta + ", multinode: {nodeCount: 2}", mainBeta + ", type: planner, multinode: {nodeCount: 2}", worker0 + "multinode: Invalid"},
		"an override that was left out":            {"v1beta1", image + ", providerOverride: {apiVersion: a, value: {}}", image + ", replicas: 2, providerOverride: {apiVersion: a, value: {}}", ""},
		"an override repaired":                     {"v1beta1", image + ", providerOverride: {apiVersion: a, value: {}}", image + ", " + groveOverride, ""},
		"no image as before":                       {"v1beta1", noImage, noImage + ", replicas: 2", ""},
		"no image as before, in v1alpha1":          {"v1alpha1", "replicas: 1", "replicas: 2", ""},
		"the image removed":                        {"v1beta1", image, noImage, worker0 + "podTemplate.spec.containers[main].image: Required"},
		"the template removed":                     {"v1beta1", image, "replicas: 2", worker0 + "podTemplate.spec.containers[main].image: Required"},
		"the image removed in v1alpha1":            {"v1alpha1", mainAlpha, "replicas: 2", workerOf + "extraPodSpec.mainContainer.image: Required"},
		"another image":                            {"v1beta1", noImage, image, ""},
		"a sidecar without an image, as before":    {"v1beta1", side, side + ", replicas: 2", ""},
		"a sidecar without an image":               {"v1beta1", image, side, worker0 + "podTemplate.spec.containers[side].image: Required"},
		"a sidecar without an image in v1alpha1":   {"v1alpha1", mainAlpha, strings.Replace(mainAlpha, "{main", "{containers: [{name: side}], main", 1), ""},
		"minAvailable is not asked of what is not": {"v1beta1", image + ", replicas: 2, minAvailable: 2", image + ", replicas: 0, minAvailable: 2", ""},
	} {
		before, now := manifest(t, tc.version, "priorityClassName: p", tc.old), manifest(t, tc.version, "priorityClassName: p", tc.now)
		got := strings.Join(textsIn(GraphUpdate(now, before), tc.version), "\n")
		if tc.want == "" && got != "" || !strings.HasPrefix(got, tc.want) || strings.Contains(got, "\n") {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}

// TestRatchetFollowsTheComponent: a fault that was stored does not block a change that orders the components anew.
func TestRatchetFollowsTheComponent(t *testing.T) {
	const faulty = "}, {name: Other, type: frontend, experimental: {gpuMemoryService: {}}, " + mainBeta
	before, now := manifest(t, "v1beta1", "priorityClassName: p", mainBeta+faulty), manifest(t, "v1beta1", "priorityClassName: q", mainBeta+faulty)
	slices.Reverse(now.Spec.Components)
	if errs := GraphUpdate(now, before); len(errs) > 0 {
		t.Errorf("refused: %v", errs.ToAggregate())
	}
}
