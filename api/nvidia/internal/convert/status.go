// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import "slices"

// The values that v1beta1's status accepts, where v1alpha1's accepts any text.
var (
	componentKinds  = []string{"ScalingGroup", "PodClique", "PodCliqueScalingGroup", "Deployment", "LeaderWorkerSet"}
	placementStates = []string{"Reported", "Partial", "Unsupported", "Unknown"}
	updatePhases    = []string{"Pending", "InProgress", "Completed", "Failed", ""}
)

// statusToBeta translates a status of v1alpha1.
func statusToBeta(status object) object {
	out := clone(status).(object)
	delete(out, "components")
	if services, ok := out["services"].(object); ok {
		delete(out, "services")
		out["components"] = services
		for _, name := range sorted(services) {
			if component, ok := services[name].(object); ok {
				componentStatus(component)
			} else {
				delete(services, name)
			}
		}
	}
	if update, ok := out["rollingUpdate"].(object); ok {
		update = renamed(update, "updatedServices", "updatedComponents")
		keepKnown(update, "phase", updatePhases)
		out["rollingUpdate"] = update
	}
	if placement, ok := out["placement"].(object); ok {
		keepKnown(placement, "state", placementStates)
	}
	return out
}

func componentStatus(c object) {
	name := c["componentName"]
	delete(c, "componentName")
	if _, ok := c["componentNames"]; !ok && name != nil && name != "" {
		c["componentNames"] = []any{name}
	}
	if kind := c["componentKind"]; kind != nil && !slices.Contains(componentKinds, textAt(c, "componentKind")) {
		c["componentKind"] = componentKinds[0]
	}
}

// keepKnown drops a text that v1beta1 does not accept.
func keepKnown(o object, key string, known []string) {
	if value, ok := o[key]; ok {
		if text, isText := value.(string); !isText || !slices.Contains(known, text) {
			delete(o, key)
		}
	}
}

// statusToAlpha translates a status of v1beta1.
func statusToAlpha(status object) object {
	out := clone(status).(object)
	delete(out, "services")
	if components, ok := out["components"].(object); ok {
		delete(out, "components")
		out["services"] = components
		for _, name := range sorted(components) {
			service, ok := components[name].(object)
			if !ok {
				delete(components, name)
				continue
			}
			service["componentName"] = ""
			if list := listAt(service, "componentNames"); len(list) > 0 {
				service["componentName"] = list[0]
			}
		}
	}
	if update, ok := out["rollingUpdate"].(object); ok {
		out["rollingUpdate"] = renamed(update, "updatedComponents", "updatedServices")
	}
	return out
}
