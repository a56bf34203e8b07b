// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/mod/semver"
)

// clone is a repository with a file for each of the kinds that name a version.
var clone = map[string]string{
	"CHANGELOG.md":                      changelog,
	"charts/trellis/Chart.yaml":         "apiVersion: v2\nversion: 0.1.0\nappVersion: v0.1.0\nkubeVersion: \">=1.30.0-0\"\n",
	"config/manager/kustomization.yaml": "images:\n- name: trellis-manager\n  newTag: v0.1.0\n",
	"README.md": "RELEASE=https://github.com/trellis-k8s/trellis/releases/download/v0.1.0\n" +
		"# or: helm install trellis $RELEASE/trellis-0.1.0.tgz\nGrove v0.1.0-alpha.11, KAI Scheduler v0.1.0\n",
	"docs/install.md": "`kubectl-trellis_v0.1.0_OS_ARCH.tar.gz` `trellis-manager_v0.1.0_oci.tar` docker://YOUR-REGISTRY/trellis-manager:v0.1.0`\n",
	"docs/cli.md": "https://github.com/trellis-k8s/trellis/releases/download/v0.1.0/trellis.yaml\n" +
		"Client:   v0.1.0 (commit 4450ab3f330f)\nOperator: v0.1.0 (image ghcr.io/trellis-k8s/trellis-manager:v0.1.0, namespace x)\n",
	"docs/development.md": "make release VERSION=v0.1.0   # writes dist/\n",
}

// writeFiles makes a folder with these files.
func writeFiles(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func readFiles(t *testing.T, dir string, names map[string]string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for name := range names {
		raw, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		out[name] = string(raw)
	}
	return out
}

func TestPrepare(t *testing.T) {
	dir := writeFiles(t, clone)
	wrote, err := prepare(dir, "v0.2.0", "2026-12-01")
	if err != nil || len(wrote) != len(clone) {
		t.Fatalf("wrote %v: %v", wrote, err)
	}
	want := map[string]string{}
	for name, content := range clone {
		want[name] = strings.ReplaceAll(content, "0.1.0", "0.2.0")
	}
	want["README.md"] = strings.NewReplacer("Grove v0.2.0", "Grove v0.1.0", "Scheduler v0.2.0", "Scheduler v0.1.0").Replace(want["README.md"])
	want["CHANGELOG.md"] = `# Changelog

## [Unreleased]

## [0.2.0] - 2026-12-01

### Added

- Something new.

## [0.1.0] - 2026-11-30

### Added

- The first.

[Unreleased]: https://example.com/compare/v0.2.0...HEAD
[0.2.0]: https://example.com/compare/v0.1.0...v0.2.0
[0.1.0]: https://example.com/releases/tag/v0.1.0
`
	if diff := cmp.Diff(want, readFiles(t, dir, clone)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	r := &release{source: source{dir: dir}, options: options{version: "v0.2.0"}}
	if err := r.checkNamed(); err != nil {
		t.Error(err)
	}
	if notes, err := r.notes(); err != nil || !strings.Contains(notes, "Something new.") {
		t.Errorf("%v: %s", err, notes)
	}
}

// What cannot be prepared is left as it is.
func TestPrepareRefuses(t *testing.T) {
	for name, tc := range map[string]struct{ version, date, file, content, want string }{
		"no version":         {"", "2026-12-01", "", "", "want a full semantic version"},
		"no v":               {"0.2.0", "2026-12-01", "", "", "want a full semantic version"},
		"a pre-release":      {"v0.2.0-rc.1", "2026-12-01", "", "", "needs no preparation"},
		"no date":            {"v0.2.0", "today", "", "", "want YYYY-MM-DD"},
		"the same again":     {"v0.1.0", "2026-12-01", "", "", "has 0.1.0 already"},
		"an older one":       {"v0.0.9", "2026-12-01", "", "", "has 0.1.0 already"},
		"nothing to release": {"v0.2.0", "2026-12-01", "CHANGELOG.md", strings.Replace(changelog, "### Added\n\n- Something new.\n\n", "", 1), "nothing to release"},
		"no links":           {"v0.2.0", "2026-12-01", "CHANGELOG.md", "## [Unreleased]\n\n- x\n", "has no link"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := writeFiles(t, clone)
			if tc.file != "" {
				if err := os.WriteFile(filepath.Join(dir, tc.file), []byte(tc.content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			before := readFiles(t, dir, clone)
			if _, err := prepare(dir, tc.version, tc.date); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
			if diff := cmp.Diff(before, readFiles(t, dir, clone)); diff != "" {
				t.Errorf("-before +after:\n%s", diff)
			}
		})
	}
}

// The repository itself can be prepared: all of it names one version, and after that the next one.
func TestRepositoryCanBePrepared(t *testing.T) {
	found, texts, err := findMentions(root)
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]int{}
	for _, m := range found {
		if named[m.file]++; "v"+m.version != chartVersion(t) {
			t.Errorf("%s names v%s; the chart, %s", m.file, m.version, chartVersion(t))
		}
	}
	least := map[string]int{
		"charts/trellis/Chart.yaml": 2, "config/manager/kustomization.yaml": 1, "README.md": 2, "docs/install.md": 9, "docs/cli.md": 4, "docs/development.md": 2,
	}
	for file, want := range least {
		if named[file] < want {
			t.Errorf("%s names the version %d times, want at least %d", file, named[file], want)
		}
	}
	raw, err := os.ReadFile(filepath.Join(root, changelogFile))
	if err != nil {
		t.Fatal(err)
	}
	texts[changelogFile] = strings.Replace(string(raw), unreleased, unreleased+"\n- Another change.\n", 1)
	dir := writeFiles(t, texts)
	next := semver.MajorMinor(chartVersion(t)) + ".999"
	if _, err := prepare(dir, next, "2999-12-31"); err != nil {
		t.Fatal(err)
	}
	r := &release{source: source{dir: dir}, options: options{version: next}}
	if err := r.checkNamed(); err != nil {
		t.Error(err)
	}
	if notes, err := r.notes(); err != nil || !strings.Contains(notes, "Another change.") {
		t.Errorf("%v: %s", err, notes)
	}
}
