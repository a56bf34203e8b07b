// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/trellis-k8s/trellis/hack/sandbox"
	"github.com/trellis-k8s/trellis/hack/sandbox/progress"
)

// Programs of all peers run side by side: none has another's name or port, and each can be waited for.
func TestPrograms(t *testing.T) {
	names, ports := map[string]bool{}, map[int]string{}
	for _, p := range all {
		webhooks := false
		for _, program := range p.programs {
			if names[program.name] || len(program.ports) == 0 {
				t.Errorf("%s is there twice, or has no port", program.name)
			}
			names[program.name] = true
			for _, port := range program.ports {
				if other, taken := ports[port]; taken {
					t.Errorf("%s and %s have port %d", other, program.name, port)
				}
				ports[port] = program.name
			}
			webhooks = webhooks || program.ports[0] == p.port
		}
		if !webhooks && p.port != 0 {
			t.Errorf("%s: no program is waited for at its webhooks' port %d", p.name, p.port)
		}
	}
}

func TestNeeded(t *testing.T) {
	want := map[sandbox.Provider][]string{
		sandbox.Gates: nil, sandbox.PodGroup: nil, sandbox.KAI: {"KAI"}, sandbox.Grove: {"KAI", "Grove"}, sandbox.LeaderWorkerSet: {"LeaderWorkerSet"},
	}
	for _, provider := range sandbox.Providers {
		if diff := cmp.Diff(want[provider], Needed(provider)); diff != "" {
			t.Errorf("%s: %s", provider, diff)
		}
	}
}

func TestFind(t *testing.T) {
	t.Setenv(SourcesVariable, "")
	t.Setenv(ProgramsVariable, "")
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	if _, err := Find(".", "LWS"); err == nil || !strings.Contains(err.Error(), `peer "LWS": there are KAI, Grove, LeaderWorkerSet, Kueue, Karpenter`) {
		t.Errorf("an unknown peer: %v", err)
	}
	set, err := Find(".", "LeaderWorkerSet")
	if err != nil {
		t.Fatalf("LeaderWorkerSet needs no folder: %v", err)
	}
	if diff := cmp.Diff(map[string][]int{"lws": {39443, 39081}}, set.Beside(progress.Discard).Ports); diff != "" {
		t.Error(diff)
	}
}

const rendered = `
kind: Deployment
metadata: {name: dropped}
---
kind: ClusterRoleBinding
metadata: {name: binding}
subjects: [{kind: ServiceAccount, name: a, namespace: here}, {kind: ServiceAccount, name: b, namespace: elsewhere}, {kind: User, name: c}]
---
kind: ServiceAccount
metadata: {name: a, namespace: here}
---
kind: ServiceAccount
metadata: {name: a, namespace: here}
---
kind: ValidatingWebhookConfiguration
metadata: {name: hooks}
webhooks: [{name: one, clientConfig: {service: {name: s, namespace: here, path: /one}}}]
---
kind: Namespace
metadata: {name: here}
`

// What a chart says is installed once each, namespaces first, with the accounts that bindings name and webhooks on this machine.
func TestCharts(t *testing.T) {
	objects, err := decode(strings.NewReader(rendered), installedKinds...)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, o := range sorted(append(accounts(objects, "here"), objects...)) {
		got = append(got, o.GetKind()+"/"+o.GetName())
		if err := direct(o, 4711, "authority"); err != nil {
			t.Fatal(err)
		}
		if hooks, _, _ := unstructured.NestedSlice(o.Object, "webhooks"); len(hooks) > 0 {
			want := map[string]any{"url": "https://127.0.0.1:4711/one", "caBundle": "authority"}
			if diff := cmp.Diff(want, hooks[0].(map[string]any)["clientConfig"]); diff != "" {
				t.Error(diff)
			}
		}
	}
	want := []string{"Namespace/here", "ServiceAccount/a", "ClusterRoleBinding/binding", "ValidatingWebhookConfiguration/hooks"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if _, err := definitionsIn(t.TempDir()); err == nil || !strings.Contains(err.Error(), "no custom resource definitions") {
		t.Errorf("an empty folder: %v", err)
	}
}

// TestLimitsNameTheTestedPeers: the README's Limits name each peer with the version that Trellis is tested with.
func TestLimitsNameTheTestedPeers(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## Limits\n\n")
	section, _, _ = strings.Cut(section, "\n\n")
	section = strings.Join(strings.Fields(section), " ")
	for _, p := range all {
		if want := p.name + " " + p.version(); !strings.Contains(section, want) {
			t.Errorf("the README's Limits lack %q", want)
		}
	}
}

// A failed download is reported with its cause, which go prints as JSON.
func TestFailedDownload(t *testing.T) {
	t.Setenv("GOPROXY", "off")
	_, err := moduleDir(t.Context(), peer{module: "example.com/absent@v1.0.0"})
	if err == nil || !strings.Contains(err.Error(), "module lookup disabled by GOPROXY=off") {
		t.Errorf("the cause of the failure is missing: %v", err)
	}
}
