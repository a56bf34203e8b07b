// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/trellis-k8s/trellis/test/testutil/apiserver"
)

// shell runs scripts with the kubectl of a control plane.
type shell struct{ env []string }

func (s shell) run(t *testing.T, script string) (string, error) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", script)
	command.Env = s.env
	out, err := command.CombinedOutput()
	return string(out), err
}

func (s shell) must(t *testing.T, script string) string {
	t.Helper()
	out, err := s.run(t, script)
	if err != nil {
		t.Fatalf("%s\n%v: %s", script, err, out)
	}
	return out
}

// unreachable has objects stored as v1beta1, and converted by nothing that answers.
func (s shell) unreachable(t *testing.T) {
	t.Helper()
	s.must(t, `kubectl patch crd dynamographdeployments.nvidia.com --type=json -p '[
		{"op":"replace","path":"/spec/versions/0/storage","value":false},{"op":"replace","path":"/spec/versions/1/storage","value":true},
		{"op":"add","path":"/spec/conversion","value":{"strategy":"Webhook","webhook":{
			"conversionReviewVersions":["v1"],"clientConfig":{"url":"https://127.0.0.1:1/convert"}}}}]'`)
}

// withoutOperator is an API server with a deployment older that is stored as v1alpha1, a deployment chat that is stored as v1beta1, and nothing that
// converts.
func withoutOperator(t *testing.T) shell {
	t.Helper()
	read := envtest.CRDInstallOptions{Paths: []string{filepath.Join(root, "config", "crd", "bases")}, ErrorIfPathMissing: true}
	if err := envtest.ReadCRDFiles(&read); err != nil {
		t.Fatal(err)
	}
	for _, crd := range read.CRDs {
		for i := range crd.Spec.Versions {
			crd.Spec.Versions[i].Storage = crd.Spec.Versions[i].Name == "v1alpha1"
		}
	}
	env := &envtest.Environment{CRDs: read.CRDs}
	apiserver.Start(t, env)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, env.KubeConfig, 0o600); err != nil {
		t.Fatal(err)
	}
	s := shell{append(os.Environ(), "KUBECONFIG="+kubeconfig, "PATH="+os.Getenv("KUBEBUILDER_ASSETS")+":"+os.Getenv("PATH"))}
	s.must(t, `kubectl create -f - <<< '{"apiVersion":"nvidia.com/v1alpha1","kind":"DynamoGraphDeployment","metadata":{"name":"older"},
		"spec":{"services":{"Worker":{}}}}'`)
	s.unreachable(t)
	s.must(t, "while kubectl get dynamographdeployments.v1beta1.nvidia.com older; do :; done") // until the API server acts on the patch
	s.must(t, `kubectl create -f - <<< '{"apiVersion":"nvidia.com/v1beta1","kind":"DynamoGraphDeployment","metadata":{"name":"chat"},
		"spec":{"components":[{"name":"Worker"}]}}'`)
	return s
}

// TestReadsWithoutTheOperator: what can be read while nothing converts, and the error of what cannot, are as troubleshooting.md says; the commands
// of runbook.md work.
func TestReadsWithoutTheOperator(t *testing.T) {
	s := withoutOperator(t)
	page := pages(t)["troubleshooting.md"]
	for stored, name := range map[string]string{"v1beta1": "chat", "v1alpha1": "older"} {
		for _, asked := range []string{"v1beta1", "v1alpha1"} {
			out, err := s.run(t, "kubectl get dynamographdeployments."+asked+".nvidia.com "+name)
			outcome := map[bool]string{true: "works", false: "fails"}[err == nil]
			if row := "| " + stored + " | " + asked + " | " + outcome + " |"; !strings.Contains(page, row) {
				t.Errorf("troubleshooting.md lacks the row %s\n%s", row, out)
			}
			if name == "chat" && err != nil {
				checkQuoted(t, page, out)
			}
		}
	}
	if out, err := s.run(t, "kubectl get dynamographdeployments.v1beta1.nvidia.com"); err == nil || !strings.Contains(out, "StorageReadError") {
		t.Errorf("a list with an object that cannot be read: %v: %s", err, out)
	}
	for _, asked := range []string{"v1beta1", "v1alpha1"} {
		if out, err := s.run(t, "kubectl delete dynamographdeployments."+asked+".nvidia.com older"); err == nil {
			t.Errorf("an object that is stored as v1alpha1 is deleted as %s: %s", asked, out)
		}
	}
	s.must(t, `kubectl patch crd dynamographdeployments.nvidia.com --type=merge -p '{"spec":{"conversion":{"strategy":"None","webhook":null}}}'
		until kubectl delete dynamographdeployments.v1beta1.nvidia.com older; do :; done`)
	s.unreachable(t)
	s.must(t, "while kubectl get dynamographdeployments.v1alpha1.nvidia.com chat; do :; done") // until the API server acts on the patch
	if out := s.must(t, block(t, "runbook.md", "dynamographdeployments.v1beta1")); !strings.Contains(out, "chat") {
		t.Errorf("the commands of runbook.md do not show the deployment: %s", out)
	}
	if out, err := s.run(t, "kubectl delete dynamographdeployments.v1alpha1.nvidia.com chat"); err == nil {
		t.Errorf("an object that is stored as v1beta1 is deleted as v1alpha1: %s", out)
	}
	s.must(t, "kubectl delete dynamographdeployments.v1beta1.nvidia.com chat")
}

// checkQuoted compares an error with the block of a page that quotes it, up to the address that was called.
func checkQuoted(t *testing.T, page, out string) {
	t.Helper()
	comparable := func(text string) string {
		text, _, _ = strings.Cut(text, `"https://`)
		return regexp.MustCompile(`revision=\d+`).ReplaceAllString(strings.Join(strings.Fields(text), " "), "revision=N")
	}
	for _, found := range codeBlock.FindAllStringSubmatch(page, -1) {
		if comparable(found[2]) == comparable(out) {
			return
		}
	}
	t.Errorf("troubleshooting.md has no block with the error: %s", out)
}
