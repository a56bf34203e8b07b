// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

func TestChartIsUpToDate(t *testing.T) {
	fresh := t.TempDir()
	if err := run(root, fresh); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{crdTarget, rbacTarget, filesTarget + "/rbac", filesTarget + "/prometheus", filesTarget + "/dashboards"} {
		want, have := files(t, filepath.Join(fresh, dir)), files(t, filepath.Join(root, dir))
		if w, h := slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(have)); !slices.Equal(w, h) {
			t.Errorf("%s holds %v, want %v; run: go run ./hack/chartcrds", dir, h, w)
		}
		for name := range want {
			if !bytes.Equal(want[name], have[name]) {
				t.Errorf("%s/%s is out of date; run: go run ./hack/chartcrds", dir, name)
			}
		}
	}
}

func files(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string][]byte{}
	for _, entry := range entries {
		if found[entry.Name()], err = os.ReadFile(filepath.Join(dir, entry.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return found
}

func TestKeepNeedsItsPlace(t *testing.T) {
	if _, err := keep([]byte("kind: CustomResourceDefinition\nmetadata:\n  name: a\n")); err == nil {
		t.Error("a definition without annotations was copied without the one that keeps it")
	}
}

func TestRolesMayNotHoldBraces(t *testing.T) {
	if _, err := namespaced([]byte("# {{ .Release.Name }}\n")); err == nil {
		t.Error("a role with braces was copied")
	}
	role, err := namespaced([]byte("metadata:\n  namespace: trellis-system\n"))
	if err != nil || !strings.Contains(string(role), "namespace: {{ .Release.Namespace }}\n") {
		t.Errorf("got %q, %v", role, err)
	}
}
