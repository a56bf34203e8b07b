// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestSetServicePort(t *testing.T) {
	config := func() map[string]any {
		return map[string]any{"clientConfig": map[string]any{"service": map[string]any{"name": "s", "port": int64(1)}}}
	}
	for name, o := range map[string]map[string]any{
		"admission":  {"kind": "ValidatingWebhookConfiguration", "webhooks": []any{config(), config()}},
		"conversion": {"kind": "CustomResourceDefinition", "spec": map[string]any{"conversion": map[string]any{"webhook": config()}}},
	} {
		if !SetServicePort(&unstructured.Unstructured{Object: o}, 2) {
			t.Errorf("%s: unchanged", name)
		}
	}
	hooks := map[string]any{"kind": "MutatingWebhookConfiguration", "webhooks": []any{config()}}
	SetServicePort(&unstructured.Unstructured{Object: hooks}, 2)
	port, _, err := unstructured.NestedInt64(hooks["webhooks"].([]any)[0].(map[string]any), "clientConfig", "service", "port")
	if err != nil || port != 2 {
		t.Errorf("port %d, %v", port, err)
	}
	if SetServicePort(&unstructured.Unstructured{Object: map[string]any{"kind": "CustomResourceDefinition", "spec": map[string]any{}}}, 2) {
		t.Error("a definition without conversion changed")
	}
}
