// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/mod/semver"
)

// clone is a repository with a file of each kind that names a version: a development version, and on the pages the last release.
var clone = map[string]string{
	"internal/version/source.go":        "package version\n\nconst Source = \"v0.2.0-dev\"\n",
	"internal/operator/options.go":      "f.BoolVar(&o.Conversion, \"conversion\", true, \"text\")\nf.IntVar(&c.Max, \"capacity-max\",\n1, \"text\")\n",
	"internal/operator/options_test.go": "f.BoolVar(&o.X, \"of-a-test\", true, \"\")\n",
	"api/trellis/v1alpha1/names.go":     "const A = \"trellis.dev/queue\"\n",
	"config/crd/bases/x.yaml":           "metadata:\n  annotations:\n    trellis.dev/version: v0.2.0-dev\n",
	"charts/trellis/files/crds/x.yaml":  "metadata:\n  annotations:\n    trellis.dev/version: v0.2.0-dev\n",
	"CHANGELOG.md":                      changelog,
	"charts/trellis/Chart.yaml":         "apiVersion: v2\nversion: 0.2.0-dev\nappVersion: v0.2.0-dev\nkubeVersion: \">=1.30.0-0\"\n",
	"config/manager/kustomization.yaml": "images:\n- name: trellis-manager\n  newTag: v0.2.0-dev\n",
	"README.md": "RELEASE=https://github.com/trellis-k8s/trellis/releases/download/v0.1.0\n" +
		"git checkout v0.1.0\n# or: helm install trellis $RELEASE/trellis-0.1.0.tgz\nWhat v0.1.0 lacks, Grove v0.1.0-alpha.11, KAI Scheduler v0.1.0\n",
	"docs/install.md": "`kubectl-trellis_v0.1.0_OS_ARCH.tar.gz` `trellis-manager_v0.1.0_oci.tar` docker://YOUR-REGISTRY/trellis-manager:v0.1.0`\n",
	"docs/cli.md": "https://github.com/trellis-k8s/trellis/releases/download/v0.1.0/trellis.yaml\n" +
		"Client:   v0.1.0 (commit 4450ab3f330f)\nOperator: v0.1.0 (image ghcr.io/trellis-k8s/trellis-manager:v0.1.0, namespace x)\n",
	"docs/dev/development.md": "make release VERSION=v0.1.0   # writes dist/\n",
}

// writeFiles creates a folder with these files.
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
	const facts = "test/install/testdata/releases/v0.2.0.yaml"
	if err != nil || len(wrote) != len(clone)-3+1 || !slices.Contains(wrote, facts) { // all files except the operator's code, and the facts
		t.Fatalf("wrote %v: %v", wrote, err)
	}
	if got, want := readFiles(t, dir, map[string]string{facts: ""})[facts], "annotations:\n- trellis.dev/queue\nflags:\n- capacity-max\n- conversion\n"; !strings.HasSuffix(got, want) {
		t.Errorf("what the operator of the release knows is %s, want %s", got, want)
	}
	want := map[string]string{}
	for name, content := range clone {
		want[name] = strings.NewReplacer("0.1.0", "0.2.0", "-dev", "").Replace(content)
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

// TestPrepareDevelopment checks that after a release all files except pages name the next development version.
func TestPrepareDevelopment(t *testing.T) {
	dir := writeFiles(t, clone)
	if _, err := prepare(dir, "v0.3.0-dev", "2026-12-01"); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for name, content := range clone {
		want[name] = strings.ReplaceAll(content, "0.2.0-dev", "0.3.0-dev")
	}
	if diff := cmp.Diff(want, readFiles(t, dir, clone)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	r := &release{source: source{dir: dir}, options: options{version: "v0.3.0"}}
	if err := r.checkNamed(); err == nil || !strings.Contains(err.Error(), "names v0.3.0-dev, want v0.3.0") {
		t.Errorf("a development version can be released: %v", err)
	}
}

// TestPrepareRefuses checks that a refused preparation changes nothing.
func TestPrepareRefuses(t *testing.T) {
	for name, tc := range map[string]struct{ version, date, file, content, want string }{
		"no version":         {"", "2026-12-01", "", "", "want a full semantic version"},
		"no v":               {"0.2.0", "2026-12-01", "", "", "want a full semantic version"},
		"a pre-release":      {"v0.2.0-rc.1", "2026-12-01", "", "", "needs no preparation"},
		"no date":            {"v0.2.0", "today", "", "", "want YYYY-MM-DD"},
		"the former's next":  {"v0.1.0-dev", "2026-12-01", "", "", "has 0.1.0 already"},
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

// TestRepositoryCanBePrepared checks the repository itself: its pages name the last release, all other files name one version, and the next
// version can be prepared. If main has changed since the last release, its manifests must name a development version above it, because the
// released image lacks these changes.
func TestRepositoryCanBePrepared(t *testing.T) {
	found, texts, err := findMentions(root)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(root, changelogFile))
	if err != nil {
		t.Fatal(err)
	}
	last := "v" + releasedIn(string(raw))[0]
	changes, _ := sectionOf(string(raw), "Unreleased")
	if isNext := semver.Prerelease(chartVersion(t)) == development && semver.Compare(chartVersion(t), last) > 0; !isNext && (changes != "" || chartVersion(t) != last) {
		t.Errorf("the chart names %s, %s is released, and something is unreleased: %t", chartVersion(t), last, changes != "")
	}
	named := map[string]int{}
	for _, m := range found {
		want := chartVersion(t)
		if m.page {
			want = last
		}
		if named[m.file]++; "v"+m.version != want {
			t.Errorf("%s names v%s, want %s", m.file, m.version, want)
		}
	}
	least := map[string]int{
		"charts/trellis/Chart.yaml": 2, "config/manager/kustomization.yaml": 1, "README.md": 4, "docs/install.md": 10, "internal/version/source.go": 1, "docs/cli.md": 4, "docs/dev/development.md": 2,
	}
	for file, want := range least {
		if named[file] < want {
			t.Errorf("%s names the version %d times, want at least %d", file, named[file], want)
		}
	}
	texts["internal/operator/options.go"], texts["api/names.go"] = "package operator\n", "package api\n"
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
