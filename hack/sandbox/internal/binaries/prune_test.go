// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package binaries

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/trellis-k8s/trellis/hack/sandbox/progress"
)

const day = 24 * time.Hour

// old makes a directory of the cache that was last used days ago.
func old(t *testing.T, cache, name string, days int) {
	t.Helper()
	dir := filepath.Join(cache, name)
	write(t, filepath.Join(dir, "file"), "", 0o600)
	then := time.Now().Add(-time.Duration(days) * day)
	if err := os.Chtimes(dir, then, then); err != nil {
		t.Fatal(err)
	}
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, e := range entries {
		if e.IsDir() {
			found = append(found, e.Name())
		}
	}
	return found
}

// A build frees capacity: what no one used for a month goes, and nothing that is not a build of ours.
func TestBuildRemovesUnusedBuilds(t *testing.T) {
	root, _ := clone(t, "echo program > $out; chmod +x $out")
	cache, err := CacheDir()
	if err != nil {
		t.Fatal(err)
	}
	for name, days := range map[string]int{
		"controlplane-aaaaaaaaaaaa": 31, "controlplane-bbbbbbbbbbbb": 29, "controlplane-building-123": 31, "controlplane-building-456": 0,
		"node-aaaaaaaaaaaa": 31, "dns-building-123": 31,
		"sandboxes": 400, "controlplane-mine": 400,
	} {
		old(t, cache, name, days)
	}
	var said []string
	built, err := Ensure(t.Context(), root, func(e progress.Event) { said = append(said, e.Text) })
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"controlplane-bbbbbbbbbbbb", "controlplane-building-456", "controlplane-mine", filepath.Base(built), "sandboxes"}
	slices.Sort(want)
	if diff := cmp.Diff(want, names(t, cache)); diff != "" {
		t.Errorf("in the cache (-want, +have):\n%s", diff)
	}
	if !slices.Contains(said, "removing a build that was not used for 31 days: controlplane-aaaaaaaaaaaa") {
		t.Errorf("nothing was reported: %q", said)
	}
}

// Asking for a build counts as a use, independently of who built it and when.
func TestAskingForABuildKeepsIt(t *testing.T) {
	root, _ := clone(t, "echo program > $out; chmod +x $out")
	dir, err := Ensure(t.Context(), root, progress.Discard)
	if err != nil {
		t.Fatal(err)
	}
	then := time.Now().Add(-100 * day)
	if err := os.Chtimes(dir, then, then); err != nil {
		t.Fatal(err)
	}
	if _, err := Ensure(t.Context(), root, progress.Discard); err != nil {
		t.Fatal(err)
	}
	if err := prune(filepath.Dir(dir), time.Now(), progress.Discard); err != nil {
		t.Fatal(err)
	}
	if !controlPlane.complete(dir) {
		t.Error("it is gone")
	}
}
