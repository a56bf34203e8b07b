// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package input

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// bases are valid objects, by kind. What is not in them is added by schema.
var bases = map[string]string{
	"dynamographdeployments.v1alpha1": `
apiVersion: nvidia.com/v1alpha1
kind: DynamoGraphDeployment
spec:
  services:
    Frontend: {componentType: frontend, replicas: 1, extraPodSpec: {mainContainer: {image: "example.com/frontend:1"}}}
    A: {componentType: worker, replicas: 2, extraPodSpec: {mainContainer: {image: "example.com/worker:1"}}}
`,
	"dynamographdeployments.v1beta1": `
apiVersion: nvidia.com/v1beta1
kind: DynamoGraphDeployment
spec:
  components:
  - {name: A, type: worker, replicas: 2, podTemplate: {spec: {containers: [{name: main, image: "example.com/worker:1"}]}}}
  - {name: Frontend, type: frontend, replicas: 1, podTemplate: {spec: {containers: [{name: main, image: "example.com/frontend:1"}]}}}
`,
	"dynamographdeploymentscalingadapters.v1alpha1": `
apiVersion: nvidia.com/v1alpha1
kind: DynamoGraphDeploymentScalingAdapter
spec: {replicas: 1, dgdRef: {name: g, serviceName: A}}
`,
	"dynamographdeploymentscalingadapters.v1beta1": `
apiVersion: nvidia.com/v1beta1
kind: DynamoGraphDeploymentScalingAdapter
spec: {replicas: 1, dgdRef: {name: g, componentName: A}}
`,
	"clustertopologies.v1alpha1": `
apiVersion: grove.io/v1alpha1
kind: ClusterTopology
spec: {levels: [{domain: zone, key: topology.kubernetes.io/zone}, {domain: rack, key: example.com/rack}, {domain: a, key: a}]}
`,
}

// beside are fields that rules which no schema states ask for alongside others, by the beginning of their path: laid over the base as a merge patch.
var beside = map[string]string{
	"spec.services{}.eppConfig": `{spec: {services: {A: {componentType: epp, replicas: 1, runtimeVersionOverride: "1.2.0", eppConfig: {configMapRef: {name: c, key: k}}}}}}`,
	"spec.components[].eppConfig": `{spec: {components: [{name: A, type: epp, replicas: 1, runtimeVersionOverride: "1.2.0", eppConfig: {configMapRef: {name: c, key: k}},
		podTemplate: {spec: {containers: [{name: main, image: "example.com/worker:1"}]}}}]}}`,
	"spec.services{}.topologyConstraint":                       `{spec: {topologyConstraint: {topologyProfile: a, packDomain: zone}}}`,
	"spec.services{}.gpuMemoryService":                         `{spec: {services: {A: {resources: {limits: {gpu: "1"}}}}}}`,
	"spec.services{}.multinode":                                `{spec: {services: {A: {replicas: 1}}}}`,
	"spec.services{}.ingress":                                  `{spec: {services: {A: {componentType: frontend}, Frontend: {componentType: worker}}}}`,
	"spec.topologyConstraint.packDomain":                       `{spec: {topologyConstraint: {topologyProfile: a, packDomain: zone}}}`,
	"spec.components[].topologyConstraint":                     `{spec: {topologyConstraint: {clusterTopologyName: a, packDomain: zone}}}`,
	"spec.topologyConstraint.preferredPackDomain":              `{spec: {topologyConstraint: {topologyProfile: a, packDomain: zone}}}`,
	"spec.topologyConstraint.spreadDomain":                     `{spec: {topologyConstraint: {topologyProfile: a, packDomain: zone}}}`,
	"spec.topologyConstraint.preferredSpreadDomain":            `{spec: {topologyConstraint: {topologyProfile: a, packDomain: zone}}}`,
	"spec.components[].topologyConstraint.preferredPackDomain": `{spec: {topologyConstraint: {clusterTopologyName: a, packDomain: zone}}}`,
}

// base object of a leaf.
func (l *leaf) base(name string) map[string]any {
	GinkgoHelper()
	object := tree(bases[l.kind.String()])
	for prefix, patch := range beside {
		if strings.HasPrefix(l.path, prefix) && !mentions(l.kind, patch) {
			merge(object, tree(patch))
		}
	}
	object["metadata"] = map[string]any{"name": name, "annotations": map[string]any{"example.com/mine": "yes"}}
	return object
}

// mentions: the patch is of the other version.
func mentions(k *kind, patch string) bool {
	return k.version == "v1alpha1" && strings.Contains(patch, "clusterTopologyName") || k.version == "v1beta1" && strings.Contains(patch, "topologyProfile")
}

func merge(into, patch map[string]any) {
	for key, value := range patch {
		changes, isMap := value.(map[string]any)
		old, wasMap := into[key].(map[string]any)
		if isMap && wasMap {
			merge(old, changes)
			continue
		}
		into[key] = value
	}
}

func tree(text string) map[string]any {
	GinkgoHelper()
	asJSON, err := yaml.YAMLToJSON([]byte(text))
	Expect(err).NotTo(HaveOccurred())
	return decoded(asJSON).(map[string]any)
}

// decoded JSON, or nil of what is none. Numbers stay as they are written.
func decoded(text []byte) any {
	var out any
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if decoder.Decode(&out) != nil {
		return nil
	}
	return out
}

// framed is a part of an object with a leaf.
type framed struct {
	// with the leaf's value, or without the leaf.
	with func(value raw) any
	none any
	// at is where the leaf is, and made the first field above it that the object had not: "spec.services.A.extraPodSpec".
	at, made string
}

// frame lays what leads to the leaf into a part of an object, which stays as it is.
func (l *leaf) frame(object map[string]any) framed {
	part := l.part()
	f := framed{with: func(value raw) any {
		out, _, _ := place(clone(object[part]), l.steps[0].into, part, l.steps[1:], value)
		return out
	}}
	f.none, f.at, f.made = place(clone(object[part]), l.steps[0].into, part, l.steps[1:], nil)
	return f
}

func clone(value any) any {
	if m, isMap := value.(map[string]any); isMap {
		return runtime.DeepCopyJSONValue(numbersAsText(m))
	}
	return value
}

// numbersAsText makes a value that can be copied: json.Number is none of its types.
func numbersAsText(value any) any {
	switch v := value.(type) {
	case map[string]any:
		out := map[string]any{}
		for key, child := range v {
			out[key] = numbersAsText(child)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = numbersAsText(v[i])
		}
		return out
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		f, _ := v.Float64()
		return f
	}
	return value
}

// place sets or, with a nil value, removes what the steps lead to, and tells where that is.
func place(at any, s *schema, path string, steps []step, value raw) (out any, leafAt, made string) {
	if at == nil {
		at, made = numbersAsText(decoded(valid(s))), path
		if at == nil {
			at = map[string]any{}
		}
	}
	next, last := steps[0], len(steps) == 1
	var above string
	if next.name == anItem {
		list, _ := at.([]any)
		leafAt = path + "[0]"
		if last {
			leafAt = path
		}
		switch {
		case last && value == nil:
			return list[min(1, len(list)):], leafAt, made
		case len(list) == 0:
			list = []any{nil}
		}
		if last {
			list[0] = value
		} else {
			list[0], leafAt, above = place(list[0], next.into, leafAt, steps[1:], value)
		}
		return list, leafAt, first(made, above)
	}
	m, isMap := at.(map[string]any)
	if !isMap {
		m = map[string]any{}
	}
	key := next.name
	if key == aKey {
		key = "key"
		if keys := slices.Sorted(maps.Keys(m)); len(keys) > 0 {
			key = keys[0]
		}
	}
	leafAt = path + "." + key
	switch {
	case last && value == nil:
		delete(m, key)
	case last:
		m[key] = value
	default:
		m[key], leafAt, above = place(m[key], next.into, leafAt, steps[1:], value)
	}
	return m, leafAt, first(made, above)
}

func first(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// differences between two trees: their paths. Missing and null are the same.
func differences(path string, a, b any) []string {
	am, aMap := a.(map[string]any)
	bm, bMap := b.(map[string]any)
	if aMap && bMap {
		var out []string
		for key := range am {
			out = append(out, differences(path+"."+key, am[key], bm[key])...)
		}
		for key := range bm {
			if _, has := am[key]; !has {
				out = append(out, differences(path+"."+key, nil, bm[key])...)
			}
		}
		return out
	}
	al, aList := a.([]any)
	bl, bList := b.([]any)
	if aList && bList && len(al) == len(bl) {
		var out []string
		for i := range al {
			out = append(out, differences(fmt.Sprintf("%s[%d]", path, i), al[i], bl[i])...)
		}
		return out
	}
	if aMap != bMap || aList != bList || aList || !same(a, b) {
		return []string{fmt.Sprintf("%s: %s, then %s", path, short(a), short(b))}
	}
	return nil
}

// same scalars: numbers by value.
func same(a, b any) bool {
	an, aNumber := a.(json.Number)
	bn, bNumber := b.(json.Number)
	if aNumber && bNumber {
		af, _ := an.Float64()
		bf, _ := bn.Float64()
		return af == bf
	}
	return a == b
}

func short(value any) string {
	text, _ := json.Marshal(value)
	if len(text) > 200 {
		return fmt.Sprintf("%s... (%d bytes)", text[:200], len(text))
	}
	return string(text)
}
