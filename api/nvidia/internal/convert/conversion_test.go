// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"maps"
	"strconv"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

func fromYAML(t testing.TB, text string) object {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	tree, err := decode(raw)
	if err != nil {
		t.Fatal(err)
	}
	return tree.(object)
}

func alphaGraph(t testing.TB, services string) object {
	return fromYAML(t, "{apiVersion: nvidia.com/v1alpha1, kind: DynamoGraphDeployment, metadata: {name: llm}, spec: {services: "+services+"}}")
}

func betaGraph(t testing.TB, components string) object {
	return fromYAML(t, "{apiVersion: nvidia.com/v1beta1, kind: DynamoGraphDeployment, metadata: {name: llm}, spec: {components: "+components+"}}")
}

func specOf(o object) object { return objectAt(o, "spec") }

func TestPodFieldsMerge(t *testing.T) {
	tests := map[string]struct{ service, component string }{
		"nothing":           {`null`, `{}`},
		"empty spec":        {`{extraPodSpec: {}}`, `{podTemplate: {spec: {}}}`},
		"empty main":        {`{extraPodSpec: {mainContainer: {}}}`, `{podTemplate: {spec: {containers: [{name: main}]}}}`},
		"main is named":     {`{extraPodSpec: {mainContainer: {name: engine}}}`, `{podTemplate: {spec: {containers: [{name: main}]}}}`},
		"resources win":     {`{resources: {limits: {gpu: "4", cpu: 1000m}}, extraPodSpec: {mainContainer: {resources: {limits: {cpu: 2, memory: 1Gi}}}}}`, `{podTemplate: {spec: {containers: [{name: main, resources: {limits: {nvidia.com/gpu: "4", cpu: 1000m, memory: 1Gi}}}]}}}`},
		"envs win in place": {`{envs: [{name: B, value: "2"}, {name: A, value: "2"}], extraPodSpec: {mainContainer: {env: [{name: A, value: "1"}]}}}`, `{podTemplate: {spec: {containers: [{name: main, env: [{name: A, value: "2"}, {name: B, value: "2"}]}]}}}`},
		"secret is last":    {`{envFromSecret: s, extraPodSpec: {mainContainer: {envFrom: [{configMapRef: {name: c}}]}}}`, `{podTemplate: {spec: {containers: [{name: main, envFrom: [{configMapRef: {name: c}}, {secretRef: {name: s}}]}]}}}`},
		"probe as a whole":  {`{livenessProbe: {periodSeconds: 1}, extraPodSpec: {mainContainer: {livenessProbe: {timeoutSeconds: 2}}}}`, `{podTemplate: {spec: {containers: [{name: main, livenessProbe: {periodSeconds: 1}}]}}}`},
		"mount in place":    {`{volumeMounts: [{name: Claim_1, mountPoint: /m}], extraPodSpec: {mainContainer: {volumeMounts: [{name: x, mountPath: /m}]}}}`, `{podTemplate: {spec: {volumes: [{name: claim-1-804dafa1, persistentVolumeClaim: {claimName: Claim_1}}], containers: [{name: main, volumeMounts: [{name: claim-1-804dafa1, mountPath: /m}]}]}}}`},
		"cache":             {`{volumeMounts: [{name: c, useAsCompilationCache: true, mountPoint: /c}]}`, `{compilationCache: {pvcName: c, mountPath: /c}}`},
		"pod metadata wins": {`{labels: {a: s, b: s}, extraPodMetadata: {labels: {b: p}}}`, `{podTemplate: {metadata: {labels: {a: s, b: p}}}}`},
		"sidecar is second": {`{frontendSidecar: {image: f, envFromSecret: s}, extraPodSpec: {mainContainer: {image: i}, containers: [{name: log}, {name: main}, {name: sidecar-frontend}]}}`, `{frontendSidecar: sidecar-frontend, podTemplate: {spec: {containers: [{name: main, image: i}, {name: sidecar-frontend, image: f, envFrom: [{secretRef: {name: s}}]}, {name: log}]}}}`},
		"prefill":           {`{componentType: worker, subComponentType: prefill}`, `{type: prefill}`},
		"other sub-type":    {`{componentType: worker, subComponentType: x}`, `{type: worker}`},
		"unknown type":      {`{componentType: main}`, `{}`},
		"shared memory off": {`{sharedMemory: {disabled: true, size: "0"}}`, `{sharedMemorySize: "0"}`},
		"adapter off":       {`{scalingAdapter: {}}`, `{}`},
		"adapter on":        {`{scalingAdapter: {enabled: true}}`, `{scalingAdapter: {}}`},
		"experimental":      {`{failover: {enabled: true, mode: intraPod}, gpuMemoryService: {enabled: false}}`, `{experimental: {failover: {mode: IntraPod}}}`},
		"not v1beta1":       {`{runtimeVersionOverride: latest, providerOverride: {x: 1}, multinode: {nodeCount: 2, leader: {x: 1}}}`, `{multinode: {nodeCount: 2}}`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			want := fromYAML(t, tt.component)
			want["name"] = "W"
			beta := convertTo(t, alphaGraph(t, "{W: "+tt.service+"}"), Beta)
			same(t, "component", specOf(beta)["components"], []any{want})
		})
	}
}

// TestNoQuantity: what v1beta1 writes where v1alpha1 keeps a quantity, and is none, moves to where v1alpha1 can say it.
func TestNoQuantity(t *testing.T) {
	live := convertTo(t, alphaGraph(t, `{W: {resources: {limits: {memory: 1Gi, cpu: "1", custom: {a/b: "1"}}}}}`), Beta)
	main := listAt(objectAt(objectAt(entries(specOf(live))["W"], "podTemplate"), "spec"), "containers")[0]
	for _, text := range []string{"1Gi1", "", "-1", strings.Repeat("1", 65)} {
		objectAt(objectAt(main.(object), "resources"), "limits")["memory"] = text
		back := convertTo(t, live, Alpha)
		want := fromYAML(t, `{W: {resources: {limits: {cpu: "1", custom: {a/b: "1"}}}, extraPodSpec: {mainContainer: {resources: {limits: {memory: ""}}}}}}`)
		objectAt(objectAt(objectAt(objectAt(objectAt(want, "W"), "extraPodSpec"), "mainContainer"), "resources"), "limits")["memory"] = text
		same(t, "services", specOf(back)["services"], want)
		same(t, "and there again", specOf(convertTo(t, back, Beta)), specOf(live))
	}
}

// TestCacheRemoved: the mount that was the compilation cache claims no other mount of its claim.
func TestCacheRemoved(t *testing.T) {
	alpha := alphaGraph(t, `{W: {volumeMounts: [{name: c, useAsCompilationCache: true}, {name: m, mountPoint: /m}, {name: c, mountPoint: /c}]}}`)
	live := convertTo(t, alpha, Beta)
	delete(entries(specOf(live))["W"], "compilationCache")
	same(t, "services", specOf(convertTo(t, live, Alpha))["services"], fromYAML(t, `{W: {volumeMounts: [{name: m, mountPoint: /m}, {name: c, mountPoint: /c}]}}`))
}

// TestMountsKeepTheirOrder: a mount that v1alpha1 cannot say as a claim's keeps its place among the others.
func TestMountsKeepTheirOrder(t *testing.T) {
	live := convertTo(t, alphaGraph(t, `{W: {volumeMounts: [{name: m, mountPoint: /m}, {name: c, mountPoint: /c}]}}`), Beta)
	for _, volume := range listAt(objectAt(objectAt(entries(specOf(live))["W"], "podTemplate"), "spec"), "volumes") {
		if textAt(volume.(object), "name") == "c" {
			delete(volume.(object), "persistentVolumeClaim")
		}
	}
	want := clone(specOf(live))
	same(t, "there and back", specOf(convertTo(t, convertTo(t, live, Alpha), Beta)), want)
}

// TestEmptyMainStays: a sidecar does not say that there is a main container.
func TestEmptyMainStays(t *testing.T) {
	live := convertTo(t, alphaGraph(t, `{W: {readinessProbe: {periodSeconds: 1}, frontendSidecar: {image: f}}}`), Beta)
	main := listAt(objectAt(objectAt(entries(specOf(live))["W"], "podTemplate"), "spec"), "containers")[0]
	delete(main.(object), "readinessProbe")
	same(t, "services", specOf(convertTo(t, live, Alpha))["services"], fromYAML(t, `{W: {frontendSidecar: {image: f}, extraPodSpec: {mainContainer: {}}}}`))
}

// A claim at the service stays there when its request is edited in v1beta1. Neither a remembered claim of the same name nor one of the main
// container is taken for it.
func TestEditedClaimStaysAtTheService(t *testing.T) {
	for name, c := range map[string]struct{ main, written, edited, want string }{
		"a request":            {`{}`, `[{name: c}]`, `[{name: c, request: r}]`, `{resources: {claims: [{name: c, request: r}]}, extraPodSpec: {mainContainer: {}}}`},
		"one of two requests":  {`{}`, `[{name: c}, {name: c, request: r}]`, `[{name: c, request: s}, {name: c, request: r}]`, `{resources: {claims: [{name: c, request: s}, {name: c, request: r}]}, extraPodSpec: {mainContainer: {}}}`},
		"both of two requests": {`{}`, `[{name: c, request: r}, {name: c, request: s}]`, `[{name: c, request: t}, {name: c, request: u}]`, `{resources: {claims: [{name: c, request: t}, {name: c, request: u}]}, extraPodSpec: {mainContainer: {}}}`},
		"one of two removed":   {`{}`, `[{name: c, request: r}, {name: d}, {name: c, request: s}]`, `[{name: c, request: r}, {name: d}]`, `{resources: {claims: [{name: c, request: r}, {name: d}]}, extraPodSpec: {mainContainer: {}}}`},
		"another claim":        {`{}`, `[{name: c}]`, `[{name: d}]`, `{extraPodSpec: {mainContainer: {resources: {claims: [{name: d}]}}}}`},
		"another claim after":  {`{}`, `[{name: c}]`, `[{name: c, request: r}, {name: d}]`, `{resources: {claims: [{name: c, request: r}]}, extraPodSpec: {mainContainer: {resources: {claims: [{name: d}]}}}}`},
		"a request of a claim that main has, too": {`{resources: {claims: [{name: c, request: q}]}}`, `[{name: d}, {name: c, request: r}]`, `[{name: c, request: q}, {name: d}, {name: c, request: s}]`,
			`{resources: {claims: [{name: d}, {name: c, request: s}]}, extraPodSpec: {mainContainer: {resources: {claims: [{name: c, request: q}]}}}}`},
		"the request of main": {`{resources: {claims: [{name: c, request: q}]}}`, `[{name: c, request: r}]`, `[{name: c, request: s}, {name: c, request: r}]`,
			`{resources: {claims: [{name: c, request: r}]}, extraPodSpec: {mainContainer: {resources: {claims: [{name: c, request: s}]}}}}`},
	} {
		live := convertTo(t, alphaGraph(t, `{W: {resources: {claims: `+c.written+`}, extraPodSpec: {mainContainer: `+c.main+`}}}`), Beta)
		main := listAt(objectAt(objectAt(entries(specOf(live))["W"], "podTemplate"), "spec"), "containers")[0]
		objectAt(main.(object), "resources")["claims"] = fromYAML(t, "{claims: "+c.edited+"}")["claims"]
		want, alpha := clone(specOf(live)), convertTo(t, live, Alpha)
		same(t, name, objectAt(specOf(alpha), "services")["W"], fromYAML(t, c.want))
		same(t, name+", and back", specOf(convertTo(t, alpha, Beta)), want)
	}
}

// A secret of the service stays there when v1beta1 adds sources: a manager of v1alpha1 that applies it again changes nothing. One that the
// main container has as well stays there only while no one edits the sources, since its name does not tell the two apart.
func TestSecretOfTheService(t *testing.T) {
	for name, c := range map[string]struct{ own, edited, want string }{
		"unchanged":                {`[]`, `[{secretRef: {name: s}}]`, `{envFromSecret: s, extraPodSpec: {mainContainer: {envFrom: []}}}`},
		"renamed":                  {`[]`, `[{secretRef: {name: t}}]`, `{envFromSecret: t, extraPodSpec: {mainContainer: {envFrom: []}}}`},
		"another source before":    {`[]`, `[{configMapRef: {name: c}}, {secretRef: {name: s}}]`, `{envFromSecret: s, extraPodSpec: {mainContainer: {envFrom: [{configMapRef: {name: c}}]}}}`},
		"another source after":     {`[]`, `[{secretRef: {name: s}}, {configMapRef: {name: c}}]`, `{envFromSecret: s, extraPodSpec: {mainContainer: {envFrom: [{configMapRef: {name: c}}]}}}`},
		"twice":                    {`[{secretRef: {name: s}}]`, `[{secretRef: {name: s}}, {secretRef: {name: s}}]`, `{envFromSecret: s, extraPodSpec: {mainContainer: {envFrom: [{secretRef: {name: s}}]}}}`},
		"twice, the later renamed": {`[{secretRef: {name: s}}]`, `[{secretRef: {name: s}}, {secretRef: {name: t}}]`, `{extraPodSpec: {mainContainer: {envFrom: [{secretRef: {name: s}}, {secretRef: {name: t}}]}}}`},
	} {
		live := convertTo(t, alphaGraph(t, `{W: {envFromSecret: s, extraPodSpec: {mainContainer: {envFrom: `+c.own+`}}}}`), Beta)
		main := listAt(objectAt(objectAt(entries(specOf(live))["W"], "podTemplate"), "spec"), "containers")[0]
		main.(object)["envFrom"] = fromYAML(t, "{sources: "+c.edited+"}")["sources"]
		want, alpha := clone(specOf(live)), convertTo(t, live, Alpha)
		same(t, name, objectAt(specOf(alpha), "services")["W"], fromYAML(t, c.want))
		same(t, name+", and back", specOf(convertTo(t, alpha, Beta)), want)
	}
}

func TestOverriddenVariableIsLeftOut(t *testing.T) {
	in := alphaGraph(t, `{W: {extraPodSpec: {mainContainer: {env: [{name: A, value: weak}, {name: B}]}}}}`)
	specOf(in)["envs"] = []any{object{"name": "A", "value": "strong"}}
	want := fromYAML(t, `{env: [{name: A, value: strong}], components: [{name: W, podTemplate: {spec: {containers: [{name: main, env: [{name: B}]}]}}}]}`)
	same(t, "spec", specOf(convertTo(t, in, Beta)), want)
}

// TestOnlyTheOtherCanSayIt is law (c): an edit anywhere else leaves it.
func TestOnlyTheOtherCanSayIt(t *testing.T) {
	alpha := manifests(t)["alpha.yaml#0"]
	beta := convertTo(t, alpha, Beta)
	for _, element := range listAt(specOf(beta), "components") {
		element.(object)["replicas"] = number("7")
	}
	back := convertTo(t, beta, Alpha)
	for _, service := range entries(specOf(alpha)) {
		service["replicas"] = number("7")
	}
	objectAt(specOf(alpha), "services")["Nothing"] = object{"replicas": number("7")}
	same(t, "v1alpha1", specOf(back), specOf(alpha))

	beta = manifests(t)["beta.yaml#0"]
	alpha = convertTo(t, beta, Alpha)
	for _, service := range entries(specOf(alpha)) {
		service["replicas"] = number("7")
	}
	back = convertTo(t, alpha, Beta)
	for _, c := range entries(specOf(beta)) {
		c["replicas"] = number("7")
	}
	same(t, "v1beta1", specOf(back), specOf(beta))
}

// TestUpstreamPayloads is law (d), and that a saved value never overrides a live one.
func TestUpstreamPayloads(t *testing.T) {
	in := betaGraph(t, `[{name: Frontend, type: frontend, replicas: 2, podTemplate: {spec: {containers: [{name: main, resources: {limits: {nvidia.com/gpu: "8"}}}]}}}]`)
	setAnnotation(objectAt(in, "metadata"), AnnotationSpec, `{"pvcs":[{"name":"p","create":false}],"backendFramework":"vllm","services":{"Gone":{"ingress":{}},
		"Frontend":{"ingress":{"enabled":true,"host":"h"},"dynamoNamespace":"d","replicas":9,"resources":{"limits":{"gpu":"4","cpu":"1"}},"envs":[{"name":"GONE"}],"sharedMemory":{"size":"1Gi"}}}}`)
	setAnnotation(objectAt(in, "metadata"), AnnotationStatus, `{"services":{"Frontend":{"componentName":"x"}}}`)
	want := fromYAML(t, `{pvcs: [{name: p, create: false}], services: {Frontend: {componentType: frontend, replicas: 2, ingress: {enabled: true, host: h}, dynamoNamespace: d, resources: {limits: {gpu: "8"}}}}}`)
	out := convertTo(t, in, Alpha)
	same(t, "spec", specOf(out), want)
	same(t, "there and back", convertTo(t, out, Beta), in)
}

func TestRemovedValuesStayRemoved(t *testing.T) {
	alpha := manifests(t)["alpha.yaml#0"]
	beta := convertTo(t, alpha, Beta)
	for _, element := range listAt(specOf(beta), "components") {
		c := element.(object)
		if textAt(c, "name") == "worker.0" {
			for _, key := range []string{"podTemplate", "sharedMemorySize", "frontendSidecar", "compilationCache", "type"} {
				delete(c, key)
			}
		}
	}
	delete(specOf(beta), "env")
	delete(specOf(beta), "experimental")
	back := convertTo(t, beta, Alpha)
	want := fromYAML(t, `{multinode: {nodeCount: 2, leader: {anything: true}}, providerOverride: {free: form}, runtimeVersionOverride: latest}`)
	same(t, "the emptied service", objectAt(objectAt(specOf(back), "services"), "worker.0"), want)
}

func TestPartialObjects(t *testing.T) {
	for _, version := range []string{Alpha, Beta} {
		for _, rest := range []string{`{}`, `{metadata: {}}`, `{spec: null}`, `{spec: []}`, `{spec: {}}`, `{spec: {services: null, components: null}}`, `{spec: {services: [], components: {}}}`,
			`{spec: {components: [7, {name: a}, {name: a}, {}], services: {a: 7, b: []}}}`, `{status: {services: {a: 7}, components: {a: 7}}}`, `{status: null}`} {
			in := fromYAML(t, rest)
			in["apiVersion"], in["kind"] = group+version, KindDeployment
			out := convertTo(t, in, Other(version))
			if _, ok := in["metadata"]; !ok {
				in["metadata"] = object{} // the API server insists on it
			}
			same(t, rest+" there and back", convertTo(t, out, version), in)
		}
	}
}

func BenchmarkLargestManifest(b *testing.B) {
	var largest []byte
	for _, o := range manifests(b) {
		if raw := encode(o); len(raw) > len(largest) {
			largest = raw
		}
	}
	to := Alpha
	if strings.Contains(string(largest), group+Alpha) {
		to = Beta
	}
	for b.Loop() {
		if _, err := JSON(largest, to); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(len(largest)), "bytes")
}

// FuzzSpec converts any JSON in place of a spec. There and back is the identity.
func FuzzSpec(f *testing.F) {
	for _, o := range manifests(f) {
		f.Add(encode(o["spec"]), textAt(o, "apiVersion") == group+Alpha)
	}
	f.Fuzz(func(t *testing.T, spec []byte, alpha bool) {
		tree, err := decode(spec)
		if err != nil || len(spec) > MaxAnnotations/8 {
			return
		}
		if spec, ok := tree.(object); ok { // the API server removes what no schema has
			maps.DeleteFunc(spec, func(key string, _ any) bool { return !knownKeys[key] })
		}
		version := Beta
		if alpha {
			version = Alpha
		}
		in := object{"apiVersion": group + version, "kind": KindDeployment, "metadata": object{}, "spec": tree}
		same(t, "there and back", convertTo(t, convertTo(t, in, Other(version)), version), in)
	})
}

// appendText must write what strconv writes: the hashes are stored.
func TestAppendText(t *testing.T) {
	for _, s := range []string{"", "plain", "a b~!#", `"`, `\`, "\n", "\x7f", "ö", "\xff", "tab\t", "日本"} {
		if got, want := string(appendText(nil, s)), strconv.Quote(s); got != want {
			t.Errorf("%q: %s, want %s", s, got, want)
		}
	}
}
