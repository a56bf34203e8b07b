// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"
)

// A generator draws one field of an object.
type generator func(t *rapid.T) any

func oneOf(values ...any) generator {
	return func(t *rapid.T) any { return clone(rapid.SampledFrom(values).Draw(t, "value")) }
}

// fields draws each field with an even chance, and now and then null or nothing in it.
func fields(all map[string]generator) generator {
	return func(t *rapid.T) any {
		out := object{}
		for _, key := range sortedKeys(all) {
			switch rapid.IntRange(0, 9).Draw(t, key) {
			case 0, 1, 2, 3:
				out[key] = all[key](t)
			case 4:
				out[key] = empty(all[key](t))
			}
		}
		return out
	}
}

func empty(value any) any {
	switch value.(type) {
	case object:
		return object{}
	case []any:
		return []any{}
	}
	return nil
}

func sortedKeys(m map[string]generator) []string {
	o := object{}
	for key := range m {
		o[key] = nil
	}
	return sorted(o)
}

// with draws the fields of all, and these always.
func with(always object, all map[string]generator) generator {
	return func(t *rapid.T) any {
		out := fields(all)(t).(object)
		for key, value := range always {
			out[key] = clone(value)
		}
		return out
	}
}

// named draws up to n objects with names of their own.
func named(pool []string, n int, element generator) generator {
	return func(t *rapid.T) any {
		out := []any{}
		for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom(pool), 0, n, rapid.ID[string]).Draw(t, "names") {
			o := element(t).(object)
			o["name"] = name
			out = append(out, o)
		}
		return out
	}
}

func list(n int, element generator) generator {
	return func(t *rapid.T) any {
		out := []any{}
		for range rapid.IntRange(0, n).Draw(t, "n") {
			out = append(out, element(t))
		}
		return out
	}
}

func mapOf(pool []string, value generator) generator {
	return func(t *rapid.T) any {
		out := object{}
		for _, key := range rapid.SliceOfNDistinct(rapid.SampledFrom(pool), 0, 3, rapid.ID[string]).Draw(t, "keys") {
			out[key] = value(t)
		}
		return out
	}
}

var (
	number   = func(n string) json.Number { return json.Number(n) }
	quantity = oneOf("1000m", "0.5Gi", "4", number("4"), "1e3", "0", number("0"), "16Gi", "1.50")
	texts    = mapOf([]string{"a", "b/c", "d"}, oneOf("1", "2", ""))
	amounts  = mapOf([]string{"cpu", "memory", defaultGPU, "rdma/ib"}, quantity)
	words    = oneOf("1", "1000m", "0.50", "", "16Gi")
	envs     = named([]string{"A", "B", "C", "D"}, 4, fields(map[string]generator{"value": oneOf("1", "2", "$(A)"), "valueFrom": oneOf(object{"fieldRef": object{"fieldPath": "x"}})}))
	oddEnvs  = list(3, with(object{"name": "A"}, map[string]generator{"value": oneOf("1", "2")}))
	anyEnvs  = func(t *rapid.T) any {
		if rapid.IntRange(0, 9).Draw(t, "odd") == 0 {
			return oddEnvs(t)
		}
		return envs(t)
	}
	probe    = fields(map[string]generator{"httpGet": oneOf(object{"path": "/live", "port": number("80")}), "periodSeconds": oneOf(number("1"), number("2"))})
	secrets  = list(2, oneOf(object{"secretRef": object{"name": "s1"}}, object{"secretRef": object{"name": "s2"}, "prefix": "P"}, object{"configMapRef": object{"name": "s1"}}))
	override = oneOf(object{"apiVersion": "grove.io/v1alpha1", "value": object{"x": number("1")}}, object{"apiVersion": "g", "target": "t", "value": object{}})
	free     = oneOf(object{"x": number("1.0")}, object{}, object{"kvTransferPolicy": object{"domain": "rack", "labelKey": "a/b"}},
		object{"kvTransferPolicy": object{"domain": "rack", "clusterTopologyName": "c", "enforcement": "preferred", "preferredWeight": number("0.50")}, "y": nil})
	volumes = named([]string{"v", "w", "Claim_1", "cache"}, 3, fields(map[string]generator{"emptyDir": oneOf(object{})}))
	// claims of a container: the API server admits no pod that names a claim, or a request of one, twice.
	claims = oneOf([]any{}, []any{object{"name": "x"}}, []any{object{"name": "x", "request": "r"}}, []any{object{"name": "x"}, object{"name": "y"}},
		[]any{object{"name": "y"}, object{"name": "x", "request": "r"}}, []any{object{"name": "x", "request": "s"}, object{"name": "x", "request": "r"}})
	container = map[string]generator{
		"image": oneOf("i", "j"), "command": oneOf([]any{"c"}), "args": oneOf([]any{"a", "b"}), "env": anyEnvs, "envFrom": secrets,
		"resources":     fields(map[string]generator{"requests": amounts, "limits": amounts, "claims": claims}),
		"livenessProbe": probe, "readinessProbe": probe, "startupProbe": probe,
		"volumeMounts": list(2, oneOf(object{"name": "v", "mountPath": "/v"}, object{"name": "w", "mountPath": "/m", "readOnly": true})),
	}
	podSpec = map[string]generator{
		"containers": named([]string{"main", "sidecar-frontend", "log", "proxy"}, 3, fields(container)), "volumes": volumes,
		"tolerations": oneOf([]any{object{"operator": "Exists"}}), "priorityClassName": oneOf("high"), "securityContext": oneOf(object{"fsGroup": number("0")}),
	}
	topology = fields(map[string]generator{"packDomain": oneOf("rack"), "preferredPackDomain": oneOf("host"), "spreadDomain": oneOf("zone"), "preferredSpreadDomain": oneOf("block")})
	replicas = oneOf(number("0"), number("1"), number("3"))
	picker   = fields(map[string]generator{"config": oneOf(object{"plugins": []any{}}), "configMapRef": oneOf(object{"key": "k"})})
	restart  = oneOf(object{"id": "1", "strategy": object{"order": []any{}}})
	// roles are the same in both versions.
	roles  = named([]string{"leader", "worker"}, 2, fields(map[string]generator{"replicas": replicas, "providerOverride": override, "podTemplate": oneOf(object{"a": []any{}})}))
	mounts = list(3, oneOf(object{"name": "Claim_1", "mountPoint": "/m"}, object{"name": "cache", "useAsCompilationCache": true}, object{"name": "cache", "mountPoint": "/c", "useAsCompilationCache": true},
		object{"name": "cache", "mountPoint": "/v", "useAsCompilationCache": false}, object{"name": "v", "mountPoint": "/v"}, object{"name": "", "mountPoint": "/x"}))
)

func alphaService() generator {
	item := fields(map[string]generator{"cpu": words, "memory": words, "gpu": words, "gpuType": oneOf("amd.com/gpu", ""), "custom": mapOf([]string{"rdma/ib", "cpu"}, words)})
	main := map[string]generator{"mainContainer": fields(container)}
	for key, g := range podSpec {
		main[key] = g
	}
	main["containers"] = named([]string{"log", "proxy", "sidecar-frontend", "main"}, 2, fields(container))
	role := oneOf(object{}, object{"providerOverride": object{"apiVersion": "g", "value": object{}}}, object{"other": true})
	return fields(map[string]generator{
		"annotations": texts, "labels": texts, "serviceName": oneOf("x"), "componentType": oneOf("frontend", "worker", "worker", "prefill", "decode", "main", ""),
		"subComponentType": oneOf("prefill", "decode", "other", ""), "dynamoNamespace": oneOf("ns"), "globalDynamoNamespace": oneOf(true, false),
		"resources":   fields(map[string]generator{"requests": item, "limits": item, "claims": claims}),
		"autoscaling": free, "envs": anyEnvs, "envFromSecret": oneOf("s1", "s2", ""), "volumeMounts": mounts,
		"ingress": oneOf(object{"enabled": true, "host": "h"}, object{}), "modelRef": oneOf(object{"name": "m"}),
		"sharedMemory":     oneOf(object{"size": "8Gi"}, object{"disabled": true}, object{"disabled": true, "size": "0"}, object{"disabled": false, "size": number("5")}),
		"extraPodMetadata": fields(map[string]generator{"annotations": texts, "labels": texts}),
		"extraPodSpec":     fields(main), "livenessProbe": probe, "readinessProbe": probe, "replicas": replicas, "minAvailable": oneOf(number("1")),
		"multinode": fields(map[string]generator{"nodeCount": oneOf(number("2")), "leader": role, "worker": role}),
		"roles":     roles, "scalingAdapter": oneOf(object{}, object{"enabled": false}, object{"enabled": true}), "eppConfig": picker,
		"frontendSidecar": with(object{"image": "f"}, map[string]generator{"args": oneOf([]any{"x"}), "envFromSecret": oneOf("s3", ""), "envs": anyEnvs}),
		"checkpoint":      free, "gpuMemoryService": oneOf(object{"enabled": true, "mode": "interPod"}, object{"enabled": false, "mode": "intraPod"}, object{}),
		"failover": oneOf(object{"enabled": true, "numShadows": number("2")}, object{"mode": "intraPod"}), "topologyConstraint": topology,
		"providerOverride": func(t *rapid.T) any { return oneOf(override(t), free(t))(t) }, "runtimeVersionOverride": oneOf("1.5.0", "latest"), "pvc": free,
	})
}

func alphaSpec() generator {
	return fields(map[string]generator{
		"annotations": texts, "labels": texts, "pvcs": named([]string{"p", "q"}, 2, fields(map[string]generator{"size": quantity})),
		"envs": anyEnvs, "backendFramework": oneOf("vllm"), "restart": restart, "priorityClassName": oneOf("p"), "providerOverride": free, "experimental": free,
		"topologyConstraint": with(object{"topologyProfile": "t"}, map[string]generator{"packDomain": oneOf("zone"), "spreadDomain": oneOf("block")}),
		"services": func(t *rapid.T) any {
			services := mapOf([]string{"Frontend", "Worker", "w.2"}, alphaService())(t).(object)
			if rapid.IntRange(0, 9).Draw(t, "null") == 0 {
				services["Nothing"] = nil
			}
			return services
		},
	})
}

func betaComponent() generator {
	return fields(map[string]generator{
		"type": oneOf("frontend", "worker", "prefill", "decode", "epp"), "runtimeVersionOverride": oneOf("1.5.0"), "globalDynamoNamespace": oneOf(true, false),
		"podTemplate": fields(map[string]generator{"spec": fields(podSpec),
			"metadata": fields(map[string]generator{"annotations": texts, "labels": texts, "name": oneOf("n"), "finalizers": oneOf([]any{"f/g"})})}),
		"replicas": replicas, "minAvailable": oneOf(number("1")), "modelRef": oneOf(object{"name": "m"}), "eppConfig": picker,
		"multinode": fields(map[string]generator{"nodeCount": oneOf(number("2")), "leader": fields(map[string]generator{"providerOverride": override})}),
		"roles":     roles, "sharedMemorySize": quantity, "scalingAdapter": oneOf(object{}), "frontendSidecar": oneOf("log", "sidecar-frontend"),
		"compilationCache": oneOf(object{"pvcName": "cache"}, object{"pvcName": "cache", "mountPath": "/v"}), "topologyConstraint": topology, "providerOverride": override,
		"experimental": fields(map[string]generator{"gpuMemoryService": oneOf(object{"mode": "InterPod"}, object{}), "failover": oneOf(object{"numShadows": number("1")}),
			"grove": oneOf(object{"forceScalingGroup": true}), "checkpoint": oneOf(object{"enabled": true})}),
	})
}

func betaSpec() generator {
	return fields(map[string]generator{
		"annotations": texts, "labels": texts, "env": anyEnvs, "backendFramework": oneOf("vllm"), "restart": restart, "priorityClassName": oneOf("p"),
		"providerOverride":   override,
		"experimental":       oneOf(object{}, object{"kvTransferPolicy": object{"domain": "rack", "labelKey": "a/b"}}),
		"topologyConstraint": with(object{"clusterTopologyName": "t"}, map[string]generator{"packDomain": oneOf("zone"), "spreadDomain": oneOf("block")}),
		"components":         named([]string{"Worker", "Frontend", "b", "a.1"}, 4, betaComponent()),
	})
}

func status(list string, one, updated string, extra map[string]generator) generator {
	component := map[string]generator{"componentKind": oneOf("ScalingGroup", "PodClique"), "componentNames": oneOf([]any{"n", "m"}), "replicas": replicas, "readyReplicas": replicas,
		"runtimeNamespace": oneOf("r"), "placements": oneOf([]any{object{"replica": number("0"), "domain": "z/r"}})}
	for key, g := range extra {
		component[key] = g
	}
	return fields(map[string]generator{
		"observedGeneration": oneOf(number("3")), "state": oneOf("pending"), list: mapOf([]string{"Worker", "Frontend"}, fields(component)), "summary": oneOf("1/2"),
		"rollingUpdate": fields(map[string]generator{"phase": oneOf("Completed"), updated: oneOf([]any{"Worker"})}), "engine": oneOf("Gates"),
		"placement": fields(map[string]generator{"domain": oneOf("z"), "score": oneOf(number("0.50")), "state": oneOf("Reported", one)}),
	})
}

// writers of an object, as the API server keeps them; none of one that it compares.
var writers = oneOf([]any{}, []any{writer(Beta, "")}, []any{writer(Beta, "")}, []any{writer(Beta, ""), writer(Alpha, "status")}, []any{writer(Beta, ""), writer(Alpha, "")})

func writer(version, subresource string) object {
	out := object{"manager": "m", "operation": "Update", "apiVersion": group + version, "fieldsV1": object{}}
	if subresource != "" {
		out["subresource"] = subresource
	}
	return out
}

// deployment draws a whole object of a version.
func deployment(version string) *rapid.Generator[object] {
	spec, stat := alphaSpec(), status("services", "Odd", "updatedServices", map[string]generator{"componentName": oneOf("", "n", "z"), "componentKind": oneOf("Odd", "Deployment")})
	if version == Beta {
		spec, stat = betaSpec(), status("components", "Partial", "updatedComponents", nil)
	}
	return rapid.Custom(func(t *rapid.T) object {
		out := object{"apiVersion": group + version, "kind": KindDeployment, "metadata": object{"name": "llm"}}
		if list := writers(t).([]any); len(list) > 0 {
			out["metadata"].(object)["managedFields"] = list
		}
		drawn := spec(t).(object)
		dropDangling(drawn) // admission refuses a frontend sidecar without a container
		out["spec"] = drawn
		if rapid.Bool().Draw(t, "status") {
			out["status"] = stat(t)
		}
		return out
	})
}

// manifests are the deployments and adapters of testdata, and of the folder of real ones alongside the repository where it exists.
func manifests(t testing.TB) map[string]object {
	t.Helper()
	out := map[string]object{}
	for _, pattern := range []string{"testdata/*.yaml", "../../../../../shared/manifests/*.yaml", "../../../../../shared/manifests/v1beta1/*.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for i, doc := range strings.Split("\n"+string(text), "\n---") {
				raw, err := yaml.YAMLToJSON([]byte(doc))
				tree, _ := decode(raw)
				o, ok := tree.(object)
				if err != nil || !ok || textAt(o, "kind") != KindDeployment && textAt(o, "kind") != KindAdapter {
					continue
				}
				if version := strings.TrimPrefix(textAt(o, "apiVersion"), group); version == Alpha || version == Beta {
					out[fmt.Sprint(filepath.Base(file), "#", i)] = o
				}
			}
		}
	}
	return out
}
