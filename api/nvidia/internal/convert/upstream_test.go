// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"testing"

	"pgregory.net/rapid"
)

// alphaOnly are fields of a service that v1beta1 has no word for, whatever is next to them.
var alphaOnly = []string{"dynamoNamespace", "ingress", "autoscaling", "serviceName"}

// TestAnyUpstreamPayload is law (d). An object as the Dynamo operator stores it has an older spec, without a memory of ours, in its annotation: whatever
// that says, v1alpha1 says what the live object says, and takes from the older spec what v1alpha1 alone can say, of the services there are. The way back
// is the identity.
func TestAnyUpstreamPayload(t *testing.T) {
	objects, saved := deployment(Beta), deployment(Alpha)
	rapid.Check(t, func(t *rapid.T) {
		live, payload := withoutNulls(objects.Draw(t, "object")).(object), specOf(saved.Draw(t, "saved"))
		setAnnotation(objectAt(live, "metadata"), AnnotationSpec, string(encode(payload)))
		out := convertTo(t, live, Alpha)
		same(t, "there and back", convertTo(t, out, Beta), live)

		plain, said := toBeta(specOf(out)), clone(specOf(live)).(object)
		forgiveSidecars(said, plain)
		for _, spec := range []object{said, plain} {
			onlyInBeta(spec)
			claimsByName(spec)
		}
		same(t, "v1alpha1, seen from v1beta1", numbersAsTexts(pruned(plain)), numbersAsTexts(pruned(said)))

		was, services := entries(payload), entries(specOf(out))
		for name := range entries(specOf(live)) {
			for _, key := range alphaOnly {
				if value, there := was[name][key]; there {
					same(t, key+" of "+name, services[name][key], value)
				}
			}
		}
		if claims, there := payload["pvcs"]; there {
			same(t, "claims", specOf(out)["pvcs"], claims)
		}
	})
}

// claimsByName sorts the claims of resources, which are a map by name for the API: v1alpha1 has some at the service and some at the main container,
// where an edit in v1beta1 mixed them. The order of the live object is remembered.
func claimsByName(spec object) {
	for _, c := range entries(spec) {
		for _, container := range listAt(objectAt(objectAt(c, "podTemplate"), "spec"), "containers") {
			byName(objectAt(container.(object), "resources"), "claims")
		}
	}
}

// withoutNulls is a tree without nulls: the Dynamo operator's definition has no nullable field, so its API server stores none.
func withoutNulls(value any) any {
	switch v := value.(type) {
	case object:
		out := object{}
		for key, child := range v {
			if child != nil {
				out[key] = withoutNulls(child)
			}
		}
		return out
	case []any:
		out := []any{}
		for _, child := range v {
			out = append(out, withoutNulls(child))
		}
		return out
	}
	return value
}
