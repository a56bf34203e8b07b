// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/trellis-k8s/trellis/internal/gang"
	"github.com/trellis-k8s/trellis/internal/scheduler"
)

// The health checks of Argo CD and Flux count the reasons of Placed that require an action as failures, and no other wait reason.
// ProviderNotReady is left out: the condition ProviderReady distinguishes a missing provider from one that was not checked yet.
func TestHealthChecksFailWhereActionIsNeeded(t *testing.T) {
	word := regexp.MustCompile(`\w+`)
	for of, file := range map[string]struct{ path, list string }{
		"Argo CD": {filepath.Join("..", "config", "gitops", "argocd-cm.yaml"), `(?s)local degraded = \{(.*?)\}`},
		"Flux":    {"gitops.md", `(?s)c\.reason in \[(.*?)\]`},
	} {
		content, err := os.ReadFile(file.path)
		if err != nil {
			t.Fatal(err)
		}
		list := regexp.MustCompile(file.list).FindSubmatch(content)
		if list == nil {
			t.Fatalf("%s has no list of reasons", file.path)
		}
		failures := word.FindAllString(string(list[1]), -1)
		for _, reason := range scheduler.WaitReasons() {
			fails := scheduler.NeedsAction(reason) && reason != gang.CodeProviderNotReady
			if slices.Contains(failures, reason) != fails {
				t.Errorf("%s: %s is a failure: %v, want %v", of, reason, !fails, fails)
			}
		}
	}
}
