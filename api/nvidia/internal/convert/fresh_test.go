// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// written is a deployment with these managers, apart from its status.
func written(o object, versions ...string) object {
	var list []any
	for _, version := range versions {
		list = append(list, writer(version, ""))
	}
	if delete(ensure(o, "metadata"), "managedFields"); len(list) > 0 {
		o["metadata"].(object)["managedFields"] = list
	}
	return o
}

// TestFreshForm: a deployment that was never written in v1alpha1 reads there in the form that its users write, and converts back unchanged.
func TestFreshForm(t *testing.T) {
	const volumes = `volumes: [{name: v, emptyDir: {}}, {name: m, persistentVolumeClaim: {claimName: m}}]`
	for name, tc := range map[string]struct{ component, service string }{
		"nothing":     {`{}`, `{}`},
		"image alone": {`{podTemplate: {spec: {containers: [{name: main, image: i}]}}}`, `{extraPodSpec: {mainContainer: {image: i}}}`},
		"variables": {`{podTemplate: {spec: {containers: [{name: main, image: i, env: [{name: B}, {name: A, value: "1"}]}]}}}`,
			`{envs: [{name: B}, {name: A, value: "1"}], extraPodSpec: {mainContainer: {image: i}}}`},
		"resources": {`{podTemplate: {spec: {containers: [{name: main, resources: {requests: {cpu: 1000m, ephemeral-storage: 2Gi}, limits: {memory: 1Gi, nvidia.com/gpu: 8, rdma/ib: "1"}, claims: [{name: c}]}}]}}}`,
			`{resources: {requests: {cpu: 1000m, custom: {ephemeral-storage: 2Gi}}, limits: {memory: 1Gi, gpu: "8", custom: {rdma/ib: "1"}}, claims: [{name: c}]}}`},
		"what is no amount": {`{podTemplate: {spec: {containers: [{name: main, resources: {limits: {memory: 1Gi1, cpu: "1", a b: "1"}}}]}}}`,
			`{resources: {limits: {cpu: "1"}}, extraPodSpec: {mainContainer: {resources: {limits: {memory: 1Gi1, a b: "1"}}}}}`},
		"empty resources": {`{podTemplate: {spec: {containers: [{name: main, resources: {limits: {}}, env: [{name: A}]}]}}}`,
			`{envs: [{name: A}], extraPodSpec: {mainContainer: {resources: {limits: {}}}}}`},
		"probes": {`{podTemplate: {spec: {containers: [{name: main, livenessProbe: {periodSeconds: 1}, readinessProbe: {periodSeconds: 2}, startupProbe: {periodSeconds: 3}}]}}}`,
			`{livenessProbe: {periodSeconds: 1}, readinessProbe: {periodSeconds: 2}, extraPodSpec: {mainContainer: {startupProbe: {periodSeconds: 3}}}}`},
		"mounts": {`{podTemplate: {spec: {` + volumes + `, containers: [{name: main, volumeMounts: [{name: v, mountPath: /v}, {name: m, mountPath: /m}]}]}}}`,
			`{volumeMounts: [{name: v, mountPoint: /v}, {name: m, mountPoint: /m}], extraPodSpec: {` + volumes + `}}`},
		"mounts with more than a path before": {`{podTemplate: {spec: {` + volumes + `, containers: [{name: main, volumeMounts: [{name: v, mountPath: /v, readOnly: true}, {name: m, mountPath: /m}]}]}}}`,
			`{volumeMounts: [{name: m, mountPoint: /m}], extraPodSpec: {` + volumes + `, mainContainer: {volumeMounts: [{name: v, mountPath: /v, readOnly: true}]}}}`},
		"mounts with more than a path behind": {`{podTemplate: {spec: {` + volumes + `, containers: [{name: main, volumeMounts: [{name: m, mountPath: /m}, {name: v, mountPath: /v, subPath: s}]}]}}}`,
			`{extraPodSpec: {` + volumes + `, mainContainer: {volumeMounts: [{name: m, mountPath: /m}, {name: v, mountPath: /v, subPath: s}]}}}`},
		"a path twice": {`{podTemplate: {spec: {` + volumes + `, containers: [{name: main, volumeMounts: [{name: v, mountPath: /v, readOnly: true}, {name: m, mountPath: /v}]}]}}}`,
			`{extraPodSpec: {` + volumes + `, mainContainer: {volumeMounts: [{name: v, mountPath: /v, readOnly: true}, {name: m, mountPath: /v}]}}}`},
		"a mount of no volume": {`{podTemplate: {spec: {containers: [{name: main, volumeMounts: [{name: x, mountPath: /x}]}]}}}`,
			`{extraPodSpec: {mainContainer: {volumeMounts: [{name: x, mountPath: /x}]}}}`},
		"a cache and mounts": {`{compilationCache: {pvcName: c, mountPath: /c}, podTemplate: {spec: {` + volumes + `, containers: [{name: main, volumeMounts: [{name: m, mountPath: /m}]}]}}}`,
			`{volumeMounts: [{name: m, mountPoint: /m}, {name: c, mountPoint: /c, useAsCompilationCache: true}], extraPodSpec: {` + volumes + `}}`},
		"sidecars": {`{podTemplate: {metadata: {labels: {a: b}}, spec: {containers: [{name: main, env: [{name: A}]}, {name: log, env: [{name: B}], resources: {limits: {cpu: "1"}}}]}}}`,
			`{envs: [{name: A}], extraPodMetadata: {labels: {a: b}}, extraPodSpec: {containers: [{name: log, env: [{name: B}], resources: {limits: {cpu: "1"}}}]}}`},
	} {
		t.Run(name, func(t *testing.T) {
			component := fromYAML(t, tc.component)
			component["name"] = "W"
			beta := betaGraph(t, "[]")
			specOf(beta)["components"] = []any{component}
			alpha := convertTo(t, written(beta, Beta), Alpha)
			same(t, "services", specOf(alpha)["services"], object{"W": fromYAML(t, tc.service)})
			same(t, "there and back", convertTo(t, alpha, Beta), beta)
			same(t, "and plainly", numbersAsTexts(pruned(toBeta(specOf(alpha)))), numbersAsTexts(pruned(specOf(beta))))
		})
	}
}

// TestWritersDecide: what a writer of v1alpha1 has, or may have, reads as it was written, and is stored as by a version without the fresh form.
func TestWritersDecide(t *testing.T) {
	const inMain = `{W: {extraPodSpec: {mainContainer: {image: i, env: [{name: A}], resources: {limits: {nvidia.com/gpu: "1"}}}}}}`
	for name, writers := range map[string][]string{"of v1alpha1": {Alpha}, "of both": {Beta, Alpha}, "not known": nil} {
		alpha := written(alphaGraph(t, inMain), writers...)
		stored := convertTo(t, alpha, Beta)
		if text := textAt(objectAt(objectAt(stored, "metadata"), "annotations"), AnnotationSpec); text != "" {
			t.Errorf("%s: it is stored with %s", name, text)
		}
		same(t, "a writer "+name, convertTo(t, stored, Alpha), alpha)
	}
	statusOnly := betaGraph(t, `[{name: W, podTemplate: {spec: {containers: [{name: main, env: [{name: A}]}]}}}]`)
	objectAt(statusOnly, "metadata")["managedFields"] = []any{writer(Beta, ""), writer(Alpha, "status")}
	same(t, "a writer of the status alone", specOf(convertTo(t, statusOnly, Alpha))["services"], fromYAML(t, `{W: {envs: [{name: A}]}}`))
}

// TestWritersInAlphaChangeNothingStored: of an object with a writer of v1alpha1, or of unknown writers, each direction gives what it gave before
// there was a fresh form.
func TestWritersInAlphaChangeNothingStored(t *testing.T) {
	for _, version := range []string{Alpha, Beta} {
		objects := deployment(version)
		rapid.Check(t, func(t *rapid.T) {
			in := written(objects.Draw(t, "object"), rapid.SampledFrom([][]string{nil, {Alpha}, {Beta, Alpha}}).Draw(t, "writers")...)
			former := parts[0]
			former.toFreshAlpha = nil
			out, meta := object{}, clone(objectAt(in, "metadata")).(object)
			former.convert(in, out, meta, Other(version), true)
			got := convertTo(t, in, Other(version))
			same(t, "spec", specOf(got), any(specOf(out)))
			if !partial(alphaOf(Other(version), specOf(in), specOf(got))) {
				same(t, "memory", textAt(objectAt(objectAt(got, "metadata"), "annotations"), AnnotationSpec), textAt(objectAt(meta, "annotations"), AnnotationSpec))
			}
		})
	}
}

// TestTakenOut does what the API server does for a manager that has applied v1alpha1 and applies v1beta1 now: it takes the fields of the manager out of the
// object in v1alpha1. What is left has a memory in v1beta1 if the object has one, so that the memory stays.
func TestTakenOut(t *testing.T) {
	for name, tc := range map[string]struct {
		service    string
		remembered bool
	}{
		"at the service": {`{W: {envs: [{name: A}], resources: {limits: {gpu: "1"}}, extraPodSpec: {mainContainer: {image: i}}}}`, true},
		"in main":        {`{W: {extraPodSpec: {mainContainer: {image: i, env: [{name: A}], resources: {limits: {nvidia.com/gpu: "1"}}}}}}`, false},
	} {
		stored := convertTo(t, written(alphaGraph(t, tc.service), Alpha), Beta)
		compared := convertTo(t, stored, Alpha)
		same(t, name+", compared", convertTo(t, compared, Beta), stored)
		for _, spec := range []any{fromYAML(t, `{services: {W: {}}}`), nil} {
			left := clone(compared).(object)
			if left["spec"] = spec; spec == nil {
				delete(left, "spec")
			}
			left = convertTo(t, left, Beta)
			m, _ := readMemory(textAt(objectAt(objectAt(left, "metadata"), "annotations"), AnnotationSpec), Alpha)
			if m == nil && tc.remembered {
				t.Errorf("%s: what is left with the spec %v has the memory %+v", name, spec, m)
			}
		}
	}
}

// TestFirstWriteInAlpha: a deployment that was never written in v1alpha1 is read there, changed, and written. It then reads as it was written.
func TestFirstWriteInAlpha(t *testing.T) {
	objects, donors := deployment(Beta), deployment(Alpha)
	rapid.Check(t, func(t *rapid.T) {
		live := convertTo(t, written(objects.Draw(t, "object"), Beta), Alpha)
		change(t, specOf(live), specOf(donors.Draw(t, "donor")))
		written(live, Beta, Alpha)
		stored := convertTo(t, live, Beta)
		same(t, "what was written", withoutMemories(convertTo(t, stored, Alpha)), withoutMemories(live))
	})
}

// TestFreshFormOfManifests compares the form of real manifests with the rules of the Dynamo operator: of main, variables, amounts, probes and mounts
// that have a name and a path alone are at the service. Here mounts stay that stand before another one, whose order would be lost.
func TestFreshFormOfManifests(t *testing.T) {
	seen, behind := 0, 0
	for name, in := range manifests(t) {
		if textAt(in, "apiVersion") != group+Beta || textAt(in, "kind") != KindDeployment {
			continue
		}
		seen++
		services := objectAt(specOf(convertTo(t, written(clone(in).(object), Beta), Alpha)), "services")
		for component, c := range entries(specOf(in)) {
			spec := objectAt(objectAt(c, "podTemplate"), "spec")
			i := indexOf(listAt(spec, "containers"), mainContainer)
			if i < 0 {
				continue
			}
			main, s := listAt(spec, "containers")[i].(object), objectAt(services, component)
			if kept := objectAt(objectAt(s, "extraPodSpec"), "mainContainer"); slices.ContainsFunc([]string{"env", "resources", "livenessProbe", "readinessProbe"}, func(key string) bool { return !blank(pruned(kept[key])) }) {
				t.Errorf("%s: %s keeps in mainContainer %v", name, component, kept)
			}
			same(t, name+" envs", s["envs"], main["env"])
			limits := objectAt(objectAt(main, "resources"), "limits")
			if gpu, want := textAt(objectAt(objectAt(s, "resources"), "limits"), "gpu"), strings.Trim(string(encode(limits[defaultGPU])), `"`); want != "null" && gpu != want {
				t.Errorf("%s: %s has %q GPUs, want %s", name, component, gpu, want)
			}
			for _, m := range listAt(objectAt(objectAt(s, "extraPodSpec"), "mainContainer"), "volumeMounts") {
				if len(m.(object)) == 2 {
					behind++
				}
			}
		}
	}
	t.Logf("%d manifests; %d plain mounts stay before another one", seen, behind)
	if seen == 0 {
		t.Error("no manifests")
	}
}
