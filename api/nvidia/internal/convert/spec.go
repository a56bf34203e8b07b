// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Fields with the same name and form in both versions.
var (
	sameInSpec    = []string{"annotations", "labels", "backendFramework", "restart", "priorityClassName"}
	sameInService = []string{"globalDynamoNamespace", "modelRef", "replicas", "minAvailable", "eppConfig", "roles"}
)

// toBeta translates a spec of v1alpha1. What v1beta1's schema would refuse is left out.
func toBeta(spec object) object {
	out := object{}
	copyKeys(out, spec, sameInSpec...)
	if envs, ok := spec["envs"]; ok && envs != nil {
		out["env"] = envs
	}
	if validOverride(spec["providerOverride"]) {
		copyKeys(out, spec, "providerOverride")
	}
	if policy := objectAt(spec, "experimental")["kvTransferPolicy"]; validKVTransferPolicy(policy) {
		out["experimental"] = object{"kvTransferPolicy": policy}
	}
	if constraint, ok := spec["topologyConstraint"].(object); ok {
		out["topologyConstraint"] = renamed(constraint, "topologyProfile", "clusterTopologyName")
	}
	if services, ok := spec["services"].(object); ok {
		shared := listAt(spec, "envs")
		components := make([]any, 0, len(services))
		for _, name := range sorted(services) {
			components = append(components, component(name, objectAt(services, name), shared))
		}
		out["components"] = components
	}
	return out
}

// renamed copies an object with another name for one key.
func renamed(o object, from, to string) object {
	out := maps.Clone(o)
	delete(out, to)
	if value, ok := o[from]; ok {
		delete(out, from)
		out[to] = value
	}
	return out
}

// component translates one service. sharedEnvs are the graph's, which win over the main container's.
func component(name string, service object, sharedEnvs []any) object {
	c := object{"name": name}
	copyKeys(c, service, sameInService...)
	if kind := typeOf(service); kind != "" {
		c["type"] = kind
	}
	if runtimeVersion.MatchString(textAt(service, "runtimeVersionOverride")) {
		copyKeys(c, service, "runtimeVersionOverride")
	}
	if validOverride(service["providerOverride"]) {
		copyKeys(c, service, "providerOverride")
	}
	if multinode, ok := service["multinode"].(object); ok {
		c["multinode"] = multinodeToBeta(multinode)
	}
	if constraint, ok := service["topologyConstraint"].(object); ok {
		out := maps.Clone(constraint)
		delete(out, "topologyProfile")
		c["topologyConstraint"] = out
	}
	if shm, ok := service["sharedMemory"].(object); ok {
		if trueAt(shm, "disabled") {
			c["sharedMemorySize"] = "0"
		} else if size := shm["size"]; size != nil {
			c["sharedMemorySize"] = size
		}
	}
	if trueAt(objectAt(service, "scalingAdapter"), "enabled") {
		c["scalingAdapter"] = object{}
	}
	if experimental := experimentalToBeta(service); len(experimental) > 0 {
		c["experimental"] = experimental
	}
	addPod(c, service, sharedEnvs)
	return c
}

// The types of v1beta1.
var types = []string{"frontend", "worker", "prefill", "decode", "planner", "epp"}

// typeOf a service. v1alpha1 takes any text; what v1beta1 cannot say is no type.
func typeOf(service object) string {
	kind, sub := textAt(service, "componentType"), textAt(service, "subComponentType")
	switch {
	case !slices.Contains(types, kind):
		return ""
	case kind == "worker" && (sub == "prefill" || sub == "decode"):
		return sub
	}
	return kind
}

func setType(service object, kind string) {
	switch kind {
	case "":
	case "prefill", "decode":
		service["componentType"], service["subComponentType"] = "worker", kind
	default:
		service["componentType"] = kind
	}
}

func multinodeToBeta(multinode object) object {
	out := object{}
	copyKeys(out, multinode, "nodeCount")
	for _, role := range []string{"leader", "worker"} {
		settings, ok := multinode[role].(object)
		override, overrides := settings["providerOverride"]
		if ok && (len(settings) == 0 || len(settings) == 1 && overrides && validOverride(override)) {
			out[role] = settings
		}
	}
	return out
}

var (
	modesToBeta  = map[string]string{"intraPod": "IntraPod", "interPod": "InterPod"}
	modesToAlpha = map[string]string{"IntraPod": "intraPod", "InterPod": "interPod"}
)

// renameMode translates a mode and drops one that is not known.
func renameMode(settings object, words map[string]string) {
	if word := words[textAt(settings, "mode")]; word != "" {
		settings["mode"] = word
	} else {
		delete(settings, "mode")
	}
}

// experimentalToBeta gathers what v1alpha1 has at the top of a service. Presence turns it on in v1beta1.
func experimentalToBeta(service object) object {
	out := object{}
	for _, field := range []string{"gpuMemoryService", "failover"} {
		settings, _ := service[field].(object)
		if !trueAt(settings, "enabled") {
			continue
		}
		moved := maps.Clone(settings)
		delete(moved, "enabled")
		renameMode(moved, modesToBeta)
		out[field] = moved
	}
	if checkpoint, ok := service["checkpoint"].(object); ok {
		out["checkpoint"] = checkpoint
	}
	return out
}

// toAlpha translates a spec of v1beta1. sparse is v1alpha1's own spec as far as it is remembered: it decides where a value belongs. All
// other values of a pod belong in extraPodSpec and extraPodMetadata.
func toAlpha(spec, sparse object) object { return specToAlpha(spec, sparse, false) }

// toFreshAlpha translates a spec that has never been written in v1alpha1 into the form that its users write: see placer.placeFresh.
func toFreshAlpha(spec object) object { return specToAlpha(spec, nil, true) }

func specToAlpha(spec, sparse object, fresh bool) object {
	out := object{}
	copyKeys(out, spec, sameInSpec...)
	copyKeys(out, spec, "providerOverride")
	if env, ok := spec["env"]; ok && env != nil {
		out["envs"] = env
	}
	if policy, ok := objectAt(spec, "experimental")["kvTransferPolicy"].(object); ok {
		out["experimental"] = object{"kvTransferPolicy": policy}
	}
	if constraint, ok := spec["topologyConstraint"].(object); ok {
		out["topologyConstraint"] = renamed(constraint, "clusterTopologyName", "topologyProfile")
	}
	components, _ := spec["components"].([]any)
	if _, ok := names(components); ok && components != nil {
		services := object{}
		for _, element := range components {
			c := element.(object)
			name := textAt(c, "name")
			services[name] = service(c, objectAt(objectAt(sparse, "services"), name), listAt(spec, "env"), fresh)
		}
		out["services"] = services
	}
	return out
}

// service translates one component. sharedEnvs are the graph's.
func service(c, sparse object, sharedEnvs []any, fresh bool) object {
	s := object{}
	copyKeys(s, c, sameInService...)
	copyKeys(s, c, "runtimeVersionOverride", "providerOverride", "multinode", "topologyConstraint")
	setType(s, textAt(c, "type"))
	if size := c["sharedMemorySize"]; size != nil {
		if zero(size) {
			s["sharedMemory"] = object{"disabled": true}
		} else {
			s["sharedMemory"] = object{"size": size}
		}
	}
	if _, ok := c["scalingAdapter"].(object); ok {
		s["scalingAdapter"] = object{"enabled": true}
	}
	experimentalToAlpha(s, objectAt(c, "experimental"))
	placePod(s, c, sparse, sharedEnvs, fresh)
	return s
}

func experimentalToAlpha(s, experimental object) {
	for _, field := range []string{"gpuMemoryService", "failover"} {
		settings, ok := experimental[field].(object)
		if !ok {
			continue
		}
		moved := maps.Clone(settings)
		moved["enabled"] = true
		renameMode(moved, modesToAlpha)
		s[field] = moved
	}
	if checkpoint, ok := experimental["checkpoint"].(object); ok {
		s["checkpoint"] = checkpoint
	}
}

// zero reports whether a quantity is none, which turns shared memory off.
func zero(size any) bool {
	text, ok := size.(string)
	if number, isNumber := size.(json.Number); isNumber {
		text, ok = number.String(), true
	}
	if !ok || len(text) > 64 || !strings.ContainsRune(text, '0') || strings.ContainsAny(text, "123456789eE") {
		return false
	}
	quantity, err := resource.ParseQuantity(text)
	return err == nil && quantity.IsZero()
}
