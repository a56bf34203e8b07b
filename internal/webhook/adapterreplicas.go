// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/trellis-k8s/trellis/internal/field"
	"github.com/trellis-k8s/trellis/internal/replicas"
)

// keepReplicas restores the replicas that scaling adapters own, and returns a warning for each restored value. An adapter owns the replicas
// of a component if the component has the adapter before or after the request. The argument users lists who may write these replicas: the
// operator itself, which copies the adapters' replicas, and the users in its flag --scaling-users. keepReplicas leaves malformed objects
// unchanged, because validation refuses them later.
func keepReplicas(req admission.Request, users []string, updated *unstructured.Unstructured) []field.Text {
	old := &unstructured.Unstructured{}
	if len(req.OldObject.Raw) == 0 || slices.Contains(users, req.UserInfo.Username) || old.UnmarshalJSON(req.OldObject.Raw) != nil {
		return nil
	}
	var warnings []field.Text
	now, before := componentsOf(updated), componentsOf(old)
	for _, name := range slices.Sorted(maps.Keys(now)) {
		component, was := now[name], before[name]
		if was == nil || !withAdapter(component) && !withAdapter(was) || component["replicas"] == was["replicas"] {
			continue
		}
		wanted := component["replicas"]
		component["replicas"] = was["replicas"]
		adapter := replicas.AdapterName(updated.GetName(), name)
		warnings = append(warnings, field.Say(
			"%s stays %v: DynamoGraphDeploymentScalingAdapter %q owns it; leave replicas out of the manifest, and scale with kubectl scale "+
				"dgdsa/%s --replicas=%v",
			field.Component(slices.Index(namesOf(updated), name), name).Child("replicas"), was["replicas"], adapter, adapter, wanted))
	}
	return warnings
}

// componentsOf returns the components of a deployment, by name.
func componentsOf(dgd *unstructured.Unstructured) map[string]map[string]any {
	out := map[string]map[string]any{}
	spec := asMap(dgd.Object["spec"])
	for name, value := range asMap(spec["services"]) {
		if component, ok := value.(map[string]any); ok {
			out[name] = component
		}
	}
	list, _ := spec["components"].([]any)
	for _, value := range list {
		if name, ok := asMap(value)["name"].(string); ok {
			out[name] = asMap(value)
		}
	}
	return out
}

func asMap(value any) map[string]any {
	m, _ := value.(map[string]any)
	return m
}

// withAdapter reports whether a component has a scaling adapter: in v1beta1 if the field scalingAdapter is present, in v1alpha1 if its
// field enabled is true.
func withAdapter(component map[string]any) bool {
	adapter, present := component["scalingAdapter"].(map[string]any)
	if _, named := component["name"]; named {
		return present
	}
	return adapter["enabled"] == true
}
