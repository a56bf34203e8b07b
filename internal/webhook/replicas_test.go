// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"encoding/json"
	"maps"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Replicas that a scaling adapter owns stay whoever writes them, with a warning that names the adapter.
const (
	withAdapterGraph = `
metadata: {name: llm}
spec:
  services:
    Decode: {replicas: 2, scalingAdapter: {enabled: true}}
    Frontend: {replicas: 1, scalingAdapter: {}}
`
	lastApplied = "kubectl.kubernetes.io/last-applied-configuration"
	owned       = `: DynamoGraphDeploymentScalingAdapter "llm-decode" owns it; leave replicas out of the manifest, and scale with kubectl scale dgdsa/llm-decode --replicas=`
	stays5      = "spec.services[Decode].replicas stays 5" + owned
)

// newWithAdapter creates a deployment from the manifest above. The operator then writes 5, the adapter's number.
func newWithAdapter(t *testing.T) *edited {
	t.Helper()
	e := &edited{newServer(t), readDeployment(t, "", withAdapterGraph)}
	e.create(e.object)
	e.must(e.apply(withAdapterGraph))
	config := rest.CopyConfig(e.env.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: scalingUser, Groups: []string{"system:masters"}}
	operator, err := client.New(config, client.Options{Scheme: e.scheme})
	e.must(err)
	scaled := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"services":{"Decode":{"replicas":5}}}}`))
	e.must(operator.Patch(t.Context(), e.object.DeepCopy(), scaled))
	e.wantReplicas("Decode", 5)
	return e
}

// apply does to the deployment what client-side kubectl apply of a manifest does that was applied before.
func (e *edited) apply(manifest string) error {
	e.t.Helper()
	applied := readDeployment(e.t, "", manifest)
	text, err := json.Marshal(applied)
	e.must(err)
	services := maps.Clone(applied.Object["spec"].(map[string]any)["services"].(map[string]any))
	if decode := services["Decode"].(map[string]any); decode["replicas"] == nil {
		decode["replicas"] = nil // as for a field that was in the manifest before
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{lastApplied: string(text)}, "labels": applied.GetLabels()},
		"spec":     map[string]any{"services": services},
	})
	e.must(err)
	return e.change(string(patch))
}

func TestOwnedReplicasStayInAnApply(t *testing.T) {
	t.Run("of the same manifest, with a warning that says why", func(t *testing.T) {
		e := newWithAdapter(t)
		e.wantWarnings(func() error { return e.apply(withAdapterGraph) }, stays5+"2")
		e.wantReplicas("Decode", 5)
	})

	t.Run("that changes something else", func(t *testing.T) {
		e := newWithAdapter(t)
		e.must(e.apply(`
metadata: {name: llm, labels: {new: label}}
spec:
  services:
    Decode: {replicas: 2, scalingAdapter: {enabled: true}, envs: [{name: A, value: b}]}
    Frontend: {replicas: 4, scalingAdapter: {}}`))
		e.wantReplicas("Decode", 5)
		if label := e.now().GetLabels()["new"]; label != "label" {
			t.Errorf("the label new is %q", label)
		}
		t.Log("the adapter of Frontend is not enabled")
		e.wantReplicas("Frontend", 4)
	})

	t.Run("that leaves them out from now on", func(t *testing.T) {
		e := newWithAdapter(t)
		e.must(e.apply(`
metadata: {name: llm}
spec: {services: {Decode: {scalingAdapter: {enabled: true}}, Frontend: {replicas: 1}}}`))
		e.wantReplicas("Decode", 5)
	})

	t.Run("that is server-side", func(t *testing.T) {
		e := newWithAdapter(t)
		serverSide := func(opts ...client.ApplyOption) error {
			object := readDeployment(t, "", withAdapterGraph)
			return e.admin.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(object), append(opts, client.FieldOwner("kubectl"))...)
		}
		t.Log("which is a conflict the first time, as with every autoscaler")
		if err := serverSide(); !apierrors.IsConflict(err) {
			t.Errorf("want a conflict, got %v", err)
		}
		e.wantWarnings(func() error { return serverSide(client.ForceOwnership) }, stays5+"2")
		e.wantReplicas("Decode", 5)
		t.Log("and none from then on")
		e.must(serverSide())
		e.wantReplicas("Decode", 5)
	})
}

func TestOwnedReplicasStayWhoeverEditsThem(t *testing.T) {
	tests := map[string]struct {
		edit   func(e *edited) error
		wanted string
	}{
		"by kubectl edit or patch": {func(e *edited) error { return e.change(`{"spec":{"services":{"Decode":{"replicas":3}}}}`) }, "3"},
		"under the operator's field manager": {func(e *edited) error {
			return e.change(`{"spec":{"services":{"Decode":{"replicas":3}}}}`, client.FieldOwner("trellis"))
		}, "3"},
		"by an update of the whole object": {func(e *edited) error {
			there := e.now()
			e.must(unstructured.SetNestedField(there.Object, int64(0), "spec", "services", "Decode", "replicas"))
			return e.admin.Update(e.t.Context(), there)
		}, "0"},
		"by a manifest with another number": {func(e *edited) error {
			return e.apply(`
metadata: {name: llm}
spec: {services: {Decode: {replicas: 7, scalingAdapter: {enabled: true}}, Frontend: {replicas: 1}}}`)
		}, "7"},
		"in the edit that disables the adapter": {func(e *edited) error {
			return e.change(`{"spec":{"services":{"Decode":{"replicas":1,"scalingAdapter":null}}}}`)
		}, "1"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			e := newWithAdapter(t)
			e.wantWarning(func() error { return tc.edit(e) }, stays5+tc.wanted)
			e.wantReplicas("Decode", 5)
		})
	}
}

func TestUpdateThatEnablesTheAdapterLeavesReplicas(t *testing.T) {
	e := newWithAdapter(t)
	e.must(e.change(`{"spec":{"services":{"Frontend":{"replicas":3,"scalingAdapter":{"enabled":true}}}}}`))
	e.wantReplicas("Frontend", 1)
	t.Log("they may be edited once the adapter is disabled")
	e.must(e.change(`{"spec":{"services":{"Decode":{"scalingAdapter":null}}}}`))
	e.must(e.change(`{"spec":{"services":{"Decode":{"replicas":1}}}}`))
	e.wantReplicas("Decode", 1)
}

func TestOwnedReplicasAreNamedInTheWordsOfV1beta1(t *testing.T) {
	e := newWithAdapter(t)
	there := deploymentOf("v1beta1", "llm")
	e.get(there)
	patch := client.RawPatch("application/json-patch+json", []byte(`[{"op":"replace","path":"/spec/components/0/replicas","value":4}]`))
	e.wantWarning(func() error { return e.admin.Patch(t.Context(), there, patch) }, "spec.components[0].replicas stays 5"+owned+"4")
	e.wantReplicas("Decode", 5)
}
