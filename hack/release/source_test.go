// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const changelog = `# Changelog

## [Unreleased]

### Added

- Something new.

## [0.1.0] - 2026-11-30

### Added

- The first.

[Unreleased]: https://example.com/compare/v0.1.0...HEAD
[0.1.0]: https://example.com/releases/tag/v0.1.0
`

// commitOf creates a repository with some files, two tags on its only commit, and an uncommitted file.
func commitOf(t *testing.T, files map[string]string) string {
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
	who := []string{"-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgSign=false", "-c", "tag.gpgSign=false"}
	for _, args := range [][]string{
		{"init", "--quiet"}, {"add", "."}, {"commit", "--quiet", "--message=first"}, {"tag", "v0.0.9"}, {"tag", "v9.9.9"},
	} {
		if _, err := run(t.Context(), dir, []string{"GIT_COMMITTER_DATE=1800000000 +0100"}, "git", append(who, args...)...); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "stray"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestCheckoutIsClean(t *testing.T) {
	repository, dir, said := commitOf(t, map[string]string{"kept": "x"}), filepath.Join(t.TempDir(), "source"), ""
	got, err := checkout(t.Context(), options{repository: repository, version: "v0.1.0"}, dir, func(format string, _ ...any) { said += format })
	if err != nil {
		t.Fatal(err)
	}
	if got.time.Unix() != 1_800_000_000 || len(got.commit) != 40 {
		t.Errorf("commit %s of %s", got.commit, got.time)
	}
	tags, err := run(t.Context(), dir, nil, "git", "tag", "--points-at", got.commit)
	if err != nil || tags != "v0.1.0" {
		t.Errorf("tags %q (%v), want the version only", tags, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "kept")); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "stray")); err == nil {
		t.Error("a file that is not committed is in the release")
	}
	if !strings.Contains(said, "not committed") {
		t.Errorf("said %q, want a word about the file that is left out", said)
	}
}

func TestNotes(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "CHANGELOG.md"), []byte(changelog), 0o600); err != nil {
		t.Fatal(err)
	}
	for version, want := range map[string]string{
		"v0.1.0":      "# Trellis v0.1.0\n\n### Added\n\n- The first.\n",
		"v0.2.0-rc.1": "# Trellis v0.2.0-rc.1\n\n### Added\n\n- Something new.\n",
		"v0.2.0":      "error: no section ## [0.2.0]",
	} {
		r := &release{source: source{dir: dir}, options: options{version: version}}
		got, err := r.notes()
		if err != nil {
			got = "error: " + strings.TrimPrefix(err.Error(), "CHANGELOG.md has ")
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", version, diff)
		}
	}
}

// TestCommitNamesItsVersion checks that a full release is refused if the commit's own manifests would install another version.
func TestCommitNamesItsVersion(t *testing.T) {
	const chart, manifests = "charts/trellis/Chart.yaml", "config/manager/kustomization.yaml"
	good := map[string]string{
		chart:     "version: 0.2.0\nappVersion: v0.2.0\n",
		manifests: "images:\n- name: trellis-manager\n  newName: x\n  newTag: v0.2.0\n",
	}
	for name, tc := range map[string]struct{ version, file, content, want string }{
		"all of it":         {"v0.2.0", "other", "", ""},
		"a pre-release":     {"v0.3.0-rc.1", "other", "", ""},
		"another version":   {"v0.3.0", "other", "", "names"},
		"the chart's":       {"v0.2.0", chart, "version: 0.1.0\nappVersion: v0.2.0\n", "Chart.yaml names v0.1.0"},
		"the application's": {"v0.2.0", chart, "version: 0.2.0\nappVersion: v0.1.0\n", "Chart.yaml names v0.1.0"},
		"the image's":       {"v0.2.0", manifests, "images:\n- name: x\n  newTag: v0.1.0\n", "kustomization.yaml names v0.1.0"},
		"no image's":        {"v0.2.0", manifests, "images: []\n", "kustomization.yaml names no version"},
		"a page's":          {"v0.2.0", "docs/install.md", "`trellis-0.1.0.tgz`\n", "docs/install.md names v0.1.0, want v0.2.0: run make prepare-release"},
		"another project's": {"v0.2.0", "docs/install.md", "Grove v0.1.0\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write := func(file, content string) {
				path := filepath.Join(dir, file)
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			for file, content := range good {
				write(file, content)
			}
			write(tc.file, tc.content)
			r := &release{source: source{dir: dir}, options: options{version: tc.version}}
			err := r.checkNamed()
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

func TestBuildRefuses(t *testing.T) {
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "remains"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct{ version, out, want string }{
		"no version":     {"", t.TempDir(), "want a semantic version"},
		"no v":           {"0.1.0", t.TempDir(), "want a semantic version"},
		"a short one":    {"v0.1", t.TempDir(), "want a semantic version"},
		"build metadata": {"v0.1.0+x", t.TempDir(), "want a semantic version"},
		"remains":        {"v0.1.0", full, "is not empty"},
	} {
		t.Run(name, func(t *testing.T) {
			err := build(t.Context(), options{repository: "../..", version: tc.version, out: tc.out}, t.Logf)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

// TestReleaseNeedsEvidence checks that a full release needs evidence for its code, and that a pre-release and a test do not.
func TestReleaseNeedsEvidence(t *testing.T) {
	files := map[string]string{
		"CHANGELOG.md": "## [Unreleased]\n\n## [1.0.0] - 2026-12-01\n\n- New.\n", "charts/trellis/Chart.yaml": "version: 1.0.0\nappVersion: v1.0.0\n",
		"config/manager/kustomization.yaml": "images:\n- name: x\n  newTag: v1.0.0\n", "docs/evidence.yaml": "runs: []\n",
	}
	repository := commitOf(t, files)
	build := func(version string, without bool) string {
		t.Helper()
		err := build(t.Context(), options{repository: repository, version: version, out: filepath.Join(t.TempDir(), "dist"), withoutEvidence: without},
			func(string, ...any) {})
		if err == nil {
			t.Fatal("a release without programs is made")
		}
		return err.Error()
	}
	const refusal = "v1.0.0 needs a run of each of these that passed on its code"
	if said := build("v1.0.0", false); !strings.Contains(said, refusal) || !strings.Contains(said, "\nsoak: docs/evidence.yaml has no such row") {
		t.Error(said)
	}
	for version, without := range map[string]bool{"v1.0.0": true, "v1.0.0-rc.1": false} {
		if said := build(version, without); strings.Contains(said, "needs a run") {
			t.Errorf("%s: %s", version, said)
		}
	}
}
