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

// The component types of v1beta1.
var types = []string{"frontend", "worker", "prefill", "decode", "planner", "epp"}

var (
	modesToBeta  = map[string]string{"intraPod": "IntraPod", "interPod": "InterPod"}
	modesToAlpha = map[string]string{"IntraPod": "intraPod", "InterPod": "interPod"}
)

// component translates one service to v1beta1. sharedEnvs are the graph's environment variables, which override variables of the main
// container.
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

// typeOf returns the v1beta1 type of a service. v1alpha1 accepts any text; a type that v1beta1 does not have becomes "".
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

// renameMode translates a mode, and drops an unknown mode.
func renameMode(settings object, words map[string]string) {
	if word := words[textAt(settings, "mode")]; word != "" {
		settings["mode"] = word
	} else {
		delete(settings, "mode")
	}
}

// experimentalToBeta collects the experimental fields that v1alpha1 has at the top level of a service. In v1beta1, such a field is enabled
// if it is present.
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

// service translates one component to v1alpha1. sparse is the service in the memory, sharedEnvs are the graph's environment variables, and
// fresh is as for [placePod].
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

// zero reports whether a quantity is zero, which disables shared memory.
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
