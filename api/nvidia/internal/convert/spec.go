// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"maps"
)

// Fields with the same name and form in both versions.
var (
	sameInSpec    = []string{"annotations", "labels", "backendFramework", "restart", "priorityClassName"}
	sameInService = []string{"globalDynamoNamespace", "modelRef", "replicas", "minAvailable", "eppConfig", "roles"}
)

// toBeta translates a v1alpha1 spec. It omits values that v1beta1's schema would refuse.
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

// renamed returns a copy of an object with a key renamed.
func renamed(o object, from, to string) object {
	out := maps.Clone(o)
	delete(out, to)
	if value, ok := o[from]; ok {
		delete(out, from)
		out[to] = value
	}
	return out
}

// toAlpha translates a v1beta1 spec. sparse, the v1alpha1 spec in the memory, decides in which fields values belong. Pod values that sparse
// lacks belong in extraPodSpec and extraPodMetadata.
func toAlpha(spec, sparse object) object { return specToAlpha(spec, sparse, false) }

// toFreshAlpha translates a spec that was never written in v1alpha1 into the form that v1alpha1 users write: see placer.placeFresh.
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
