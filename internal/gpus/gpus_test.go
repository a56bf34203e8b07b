// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package gpus

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"
)

func read[T any](t failer, text string) *T {
	out := new(T)
	if err := yaml.UnmarshalStrict([]byte(text), out); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return out
}

type failer interface{ Fatalf(string, ...any) }

// gpu is a container with so many GPUs.
func gpu(name string, n int, more string) string {
	return fmt.Sprintf(`{name: %s, resources: {limits: {nvidia.com/gpu: "%d"}}%s}`, name, n, more)
}

func TestScalars(t *testing.T) {
	native := ", restartPolicy: Always"
	for name, tc := range map[string]struct {
		spec        string
		nodes       int64
		want        Shape
		errContains string
	}{
		"no GPUs":                           {spec: `containers: [{name: main}]`, nodes: 1},
		"a request alone":                   {spec: `containers: [{name: main, resources: {requests: {nvidia.com/gpu: 4}}}]`, nodes: 1, want: Shape{4, 4}},
		"the limit before the request":      {spec: `containers: [{name: main, resources: {requests: {amd.com/gpu: 2}, limits: {amd.com/gpu: 4}}}]`, nodes: 1, want: Shape{4, 4}},
		"parts of a GPU":                    {spec: `containers: [{name: main, resources: {limits: {nvidia.com/mig-1g.10gb: 2}}}]`, nodes: 1, want: Shape{2, 2}},
		"Intel's":                           {spec: `containers: [{name: main, resources: {limits: {gpu.intel.com/xe: 1}}}]`, nodes: 1, want: Shape{1, 1}},
		"other devices":                     {spec: `containers: [{name: main, resources: {limits: {rdma/ib: 8, gpu-memory: 5, cpu: 500m}}}]`, nodes: 1},
		"nodes":                             {spec: `containers: [` + gpu("main", 8, "") + `]`, nodes: 4, want: Shape{32, 32}},
		"a sidecar":                         {spec: `containers: [` + gpu("main", 8, "") + `, ` + gpu("side", 1, "") + `]`, nodes: 2, want: Shape{16, 18}},
		"a sidecar alone":                   {spec: `containers: [{name: main}, ` + gpu("side", 1, "") + `]`, nodes: 2, want: Shape{0, 2}},
		"an init container that takes less": {spec: `initContainers: [` + gpu("init", 2, "") + `], containers: [` + gpu("main", 8, "") + `]`, nodes: 1, want: Shape{8, 8}},
		"an init container that takes more": {spec: `initContainers: [` + gpu("a", 2, "") + `, ` + gpu("b", 9, "") + `], containers: [` + gpu("main", 8, "") + `]`, nodes: 2, want: Shape{16, 18}},
		"a native sidecar":                  {spec: `initContainers: [` + gpu("side", 1, native) + `], containers: [` + gpu("main", 8, "") + `]`, nodes: 1, want: Shape{8, 9}},
		"an init container behind a native sidecar": {spec: `initContainers: [` + gpu("side", 1, native) + `, ` + gpu("init", 9, "") + `], containers: [` + gpu("main", 8, "") + `]`, nodes: 1, want: Shape{8, 10}},
		"an init container before a native sidecar": {spec: `initContainers: [` + gpu("init", 9, "") + `, ` + gpu("side", 1, native) + `], containers: [` + gpu("main", 8, "") + `]`, nodes: 1, want: Shape{8, 9}},
		"two kinds":                 {spec: `containers: [{name: main, resources: {limits: {nvidia.com/gpu: 1, amd.com/gpu: 1}}}]`, nodes: 1, errContains: "container main requests two kinds of GPUs, amd.com/gpu and nvidia.com/gpu"},
		"half a GPU":                {spec: `containers: [{name: main, resources: {limits: {nvidia.com/gpu: 500m}}}]`, nodes: 1, errContains: "500m of nvidia.com/gpu is not an integer"},
		"a number that no node has": {spec: `containers: [{name: main, resources: {limits: {nvidia.com/gpu: 1e15}}}]`, nodes: 1, errContains: "is not a number of GPUs"},
		"two kinds in two containers, which is fine": {spec: `containers: [` + gpu("main", 1, "") + `, {name: side, resources: {limits: {amd.com/gpu: 1}}}]`, nodes: 1, want: Shape{1, 2}},
	} {
		got, err := ShapeOf([]Pods{{Spec: read[corev1.PodSpec](t, "{"+tc.spec+"}"), Count: tc.nodes}}, Devices{})
		check(t, name, got, err, tc.want, tc.errContains)
	}
}

func check(t *testing.T, name string, got Shape, err error, want Shape, errContains string) {
	t.Helper()
	switch {
	case errContains != "":
		if err == nil || !strings.Contains(err.Error(), errContains) {
			t.Errorf("%s: error %v, want %q", name, err, errContains)
		}
	case err != nil:
		t.Errorf("%s: %v", name, err)
	default:
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func cel(expression string) string { return fmt.Sprintf("{cel: {expression: %q}}", expression) }

// hall are the claims and classes of a cluster.
func hall(t *testing.T) Devices {
	class := func(spec string) *resourcev1.DeviceClass {
		return &resourcev1.DeviceClass{Spec: *read[resourcev1.DeviceClassSpec](t, spec)}
	}
	claim := func(requests string) *resourcev1.ResourceClaimSpec {
		return read[resourcev1.ResourceClaimSpec](t, "{devices: {requests: ["+requests+"]}}")
	}
	all := map[string]*resourcev1.ResourceClaimSpec{
		"two":      claim(`{name: g, exactly: {deviceClassName: pinned, count: 2}}`),
		"one":      claim(`{name: g, exactly: {deviceClassName: pinned}}`),
		"mixed":    claim(`{name: g, exactly: {deviceClassName: pinned, count: 4}}, {name: nic, exactly: {deviceClassName: nic, count: 2}}`),
		"selected": claim(`{name: g, exactly: {deviceClassName: plain, count: 3, selectors: [` + cel("device.attributes['a'].b && device.driver == 'gpu.intel.com'") + `]}}`),
		"extended": claim(`{name: g, exactly: {deviceClassName: extended, count: 5}}`),
		"by name":  claim(`{name: g, exactly: {deviceClassName: gpu.example.com, count: 6}}`),
		"either":   claim(`{name: g, firstAvailable: [{name: a, deviceClassName: pinned, count: 2}, {name: b, deviceClassName: extended, count: 2}]}`),
		"differ":   claim(`{name: g, firstAvailable: [{name: a, deviceClassName: pinned, count: 2}, {name: b, deviceClassName: extended, count: 4}]}`),
		"blend":    claim(`{name: g, firstAvailable: [{name: a, deviceClassName: pinned, count: 2}, {name: b, deviceClassName: nic, count: 2}]}`),
		"every":    claim(`{name: g, exactly: {deviceClassName: pinned, allocationMode: All}}`),
		"odd":      claim(`{name: g, exactly: {deviceClassName: odd}}`),
		"unknown":  claim(`{name: g, exactly: {deviceClassName: plain}}`),
		"gone":     claim(`{name: g, exactly: {deviceClassName: nowhere}}`),
	}
	return Devices{Templates: all, Claims: all, Classes: map[string]*resourcev1.DeviceClass{
		"pinned":          class(`{selectors: [` + cel(`"gpu.nvidia.com" == device.driver`) + `]}`),
		"nic":             class(`{selectors: [` + cel(`device.driver == "dra.net"`) + `]}`),
		"extended":        class(`{extendedResourceName: nvidia.com/gpu, selectors: [` + cel(`device.attributes["x"].y > 1`) + `]}`),
		"gpu.example.com": class(`{}`),
		"plain":           class(`{}`),
		"odd":             class(`{selectors: [` + cel(`device.driver == "gpu.a.com" || device.driver == "b"`) + `]}`),
	}}
}

func TestClaims(t *testing.T) {
	template := func(name string) string {
		return fmt.Sprintf(`resourceClaims: [{name: c, resourceClaimTemplateName: %q}], containers: [{name: main, resources: {claims: [{name: c}]}}]`, name)
	}
	shared := `resourceClaims: [{name: c, resourceClaimName: two}], `
	for name, tc := range map[string]struct {
		spec        string
		nodes       int64
		want        Shape
		errContains string
	}{
		"of a template, in each pod":        {template("two"), 3, Shape{6, 6}, ""},
		"of a template that has no count":   {template("one"), 1, Shape{1, 1}, ""},
		"and other devices":                 {template("mixed"), 1, Shape{4, 4}, ""},
		"the driver in the request":         {template("selected"), 1, Shape{3, 3}, ""},
		"the resource of the class":         {template("extended"), 1, Shape{5, 5}, ""},
		"the name of the class":             {template("by name"), 1, Shape{6, 6}, ""},
		"alternatives that are alike":       {template("either"), 1, Shape{2, 2}, ""},
		"alternatives that differ":          {template("differ"), 1, Shape{}, "its alternatives have 2 and 4 GPUs"},
		"GPUs or other devices":             {template("blend"), 1, Shape{}, "its alternatives have 2 and 0 GPUs"},
		"all of a node":                     {template("every"), 1, Shape{}, "requests all devices of a node"},
		"an expression with alternatives":   {template("odd"), 1, Shape{}, "it is unknown whether the devices of DeviceClass odd are GPUs"},
		"a class without selectors":         {template("unknown"), 1, Shape{}, "it is unknown whether the devices of DeviceClass plain are GPUs"},
		"a class that is not there":         {template("gone"), 1, Shape{}, "DeviceClass nowhere does not exist"},
		"a template that is not there":      {template("none"), 1, Shape{}, "ResourceClaimTemplate none does not exist"},
		"a named one, once for all pods":    {shared + `containers: [{name: main, resources: {claims: [{name: c}]}}]`, 4, Shape{2, 2}, ""},
		"a named one of main and a sidecar": {shared + `containers: [{name: main, resources: {claims: [{name: c}]}}, {name: side, resources: {claims: [{name: c, request: g}]}}]`, 4, Shape{2, 2}, ""},
		"a named one of a sidecar":          {shared + `containers: [{name: main}, {name: side, resources: {claims: [{name: c}]}}]`, 4, Shape{0, 2}, ""},
		"one request of two":                {`resourceClaims: [{name: c, resourceClaimTemplateName: mixed}], containers: [{name: main, resources: {claims: [{name: c, request: nic}]}}]`, 2, Shape{0, 0}, ""},
		"an alternative by its name":        {`resourceClaims: [{name: c, resourceClaimTemplateName: either}], containers: [{name: main, resources: {claims: [{name: c, request: g/a}, {name: c, request: g/b}]}}]`, 1, Shape{2, 2}, ""},
		"a request that is not there":       {`resourceClaims: [{name: c, resourceClaimTemplateName: two}], containers: [{name: main, resources: {claims: [{name: c, request: h}]}}]`, 1, Shape{}, `has no request "h"`},
		"two of one template":               {`resourceClaims: [{name: c, resourceClaimTemplateName: two}, {name: d, resourceClaimTemplateName: two}], containers: [{name: main, resources: {claims: [{name: c}, {name: d}]}}]`, 1, Shape{4, 4}, ""},
		"a scalar wins in its container":    {`resourceClaims: [{name: c, resourceClaimTemplateName: two}], containers: [{name: main, resources: {limits: {nvidia.com/gpu: 8}, claims: [{name: c}]}}, {name: side, resources: {claims: [{name: c}]}}]`, 1, Shape{8, 10}, ""},
		"none by amount, some by claim":     {`resourceClaims: [{name: c, resourceClaimTemplateName: two}], containers: [{name: main, resources: {limits: {nvidia.com/gpu: 0}, claims: [{name: c}]}}]`, 1, Shape{2, 2}, ""},
		"a claim that the pod lacks":        {`containers: [{name: main, resources: {claims: [{name: c}]}}]`, 1, Shape{}, "uses the claim c, which its pod does not have"},
		"a claim that nothing uses":         {`resourceClaims: [{name: c, resourceClaimTemplateName: none}], containers: [` + gpu("main", 8, "") + `]`, 1, Shape{8, 8}, ""},
	} {
		got, err := ShapeOf([]Pods{{Spec: read[corev1.PodSpec](t, "{"+tc.spec+"}"), Count: tc.nodes}}, hall(t))
		check(t, name, got, err, tc.want, tc.errContains)
	}
}

// TestNoReplicaHasLessThanItsEngine, whatever its pods are, and a pod more never makes it smaller.
func TestNoReplicaHasLessThanItsEngine(t *testing.T) {
	container := rapid.Custom(func(t *rapid.T) string {
		n := rapid.IntRange(0, 9).Draw(t, "GPUs")
		if n == 9 {
			return `{name: c, resources: {claims: [{name: ` + rapid.SampledFrom([]string{"own", "all"}).Draw(t, "claim") + `}]}}`
		}
		return gpu("c", n, rapid.SampledFrom([]string{"", ", restartPolicy: Always"}).Draw(t, "restarts"))
	})
	devices := hall(t)
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string, least int) string {
			return strings.Join(rapid.SliceOfN(container, least, 4).Draw(t, name), ", ")
		}
		spec := read[corev1.PodSpec](t, fmt.Sprintf(`{resourceClaims: [{name: own, resourceClaimTemplateName: two}, {name: all, resourceClaimName: two}], initContainers: [%s], containers: [%s]}`,
			draw("init", 0), draw("containers", 1)))
		var before Shape
		for nodes := int64(1); nodes <= 3; nodes++ {
			got, err := ShapeOf([]Pods{{spec, 1}, {spec, nodes - 1}}, devices)
			if err != nil {
				t.Fatalf("%v", err)
			}
			if got.PerReplica < got.PerEngine || got.PerReplica < before.PerReplica || got.PerEngine < before.PerEngine {
				t.Fatalf("%d nodes: %+v after %+v", nodes, got, before)
			}
			before = got
		}
	})
}
