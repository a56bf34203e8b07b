// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package external_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/trellis-k8s/trellis/internal/provider/external"
)

func TestMissing(t *testing.T) {
	const want = `
metadata: {labels: {a: "1"}}
spec: {queue: q, min: 2, groups: [{name: x, parent: p}, {name: y}]}`
	cases := map[string]struct{ have, missing string }{
		"the same":                   {want, ""},
		"more than asked for":        {strings.ReplaceAll(want, "queue: q", "queue: q, markUnschedulable: true") + "\nstatus: {x: 1}", ""},
		"more in an element":         {strings.ReplaceAll(want, "name: y", "name: y, replicas: 1"), ""},
		"another value":              {strings.ReplaceAll(want, "min: 2", "min: 3"), "spec.min"},
		"a field dropped":            {strings.ReplaceAll(want, "queue: q, ", ""), "spec.queue"},
		"a field dropped in a list":  {strings.ReplaceAll(want, ", parent: p", ""), "spec.groups[0].parent"},
		"an element less":            {strings.ReplaceAll(want, ", {name: y}", ""), "spec.groups"},
		"an element more":            {strings.ReplaceAll(want, "{name: y}", "{name: y}, {name: z}"), "spec.groups"},
		"a label changed":            {strings.ReplaceAll(want, `a: "1"`, `a: "2"`), "metadata.labels.a"},
		"nothing there":              {"metadata: {}", "metadata.labels.a"},
		"a number as another's type": {strings.ReplaceAll(want, "min: 2", "min: 2.0"), ""},
	}
	for name, c := range cases {
		if got := external.Missing(object(t, want), object(t, c.have)); got != c.missing {
			t.Errorf("%s: %q, want %q", name, got, c.missing)
		}
	}
}

// TestMissingByValue: webhooks of other projects rewrite durations and quantities as they print them; other texts are compared as they are.
func TestMissingByValue(t *testing.T) {
	cases := map[string]struct{ want, have, missing string }{
		"a duration as Grove prints it": {"spec: {template: {terminationDelay: 15m}}", "spec: {template: {terminationDelay: 15m0s}}", ""},
		"another duration":              {"spec: {template: {terminationDelay: 15m}}", "spec: {template: {terminationDelay: 4h0m0s}}", "spec.template.terminationDelay"},
		"a negative duration":           {"spec: {stalenessGracePeriod: -1s}", "spec: {stalenessGracePeriod: -1000ms}", ""},
		"a quantity": {
			`spec: {containers: [{resources: {limits: {cpu: 1000m, "nvidia.com/gpu": 8}}}]}`, `spec: {containers: [{resources: {limits: {cpu: "1", "nvidia.com/gpu": "8"}}}]}`, "",
		},
		"another quantity": {
			`spec: {containers: [{resources: {requests: {memory: 1Gi}}}]}`, `spec: {containers: [{resources: {requests: {memory: 1G}}}]}`,
			"spec.containers[0].resources.requests.memory",
		},
		"a size":                     {"spec: {volumes: [{emptyDir: {sizeLimit: 1024Mi}}]}", "spec: {volumes: [{emptyDir: {sizeLimit: 1Gi}}]}", ""},
		"the text of a variable":     {"spec: {env: [{name: A, value: 60s}]}", "spec: {env: [{name: A, value: 1m}]}", "spec.env[0].value"},
		"an argument":                {"spec: {args: [60s]}", "spec: {args: [1m]}", "spec.args[0]"},
		"a label of a field's name":  {"spec: {labels: {terminationDelay: 60s}}", "spec: {labels: {terminationDelay: 1m}}", "spec.labels.terminationDelay"},
		"an annotation with a limit": {"metadata: {annotations: {limits: 1000m}}", "metadata: {annotations: {limits: '1'}}", "metadata.annotations.limits"},
	}
	for name, c := range cases {
		if got := external.Missing(object(t, c.want), object(t, c.have)); got != c.missing {
			t.Errorf("%s: %q, want %q", name, got, c.missing)
		}
	}
}

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatal(err)
	}
	return u
}

func TestMessage(t *testing.T) {
	long := external.Message(strings.Repeat("ä", 600))
	if len(long) > 512 || !strings.HasSuffix(long, "ä...") {
		t.Errorf("%d bytes, ends %q", len(long), long[len(long)-8:])
	}
	if got := external.Message(" short "); got != "short" {
		t.Errorf("got %q", got)
	}
}
