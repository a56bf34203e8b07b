// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package readme

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

// downloads is where the documentation downloads a release.
var downloads = regexp.MustCompile(`https://github\.com/trellis-k8s/trellis/releases/download/(v\d+\.\d+\.\d+)`)

// release is what a user has after downloading the version that the README names.
type release struct {
	version string
	// folder has the files of the release.
	folder string
	// manager and plugin are the programs in them, for this platform.
	manager, plugin string
}

// readmeVersion is the version that the README installs.
func readmeVersion(t *testing.T) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	found := downloads.FindAllStringSubmatch(string(content), -1)
	if len(found) != 1 {
		t.Fatalf("the README downloads %d releases, want one: %q", len(found), found)
	}
	return found[0][1]
}

// git runs a command in a repository.
func git(ctx context.Context, repository string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = repository
	out, err := cmd.Output()
	if failed := (*exec.ExitError)(nil); errors.As(err, &failed) {
		err = fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, failed.Stderr)
	}
	return strings.TrimSpace(string(out)), err
}

// sourceOf is the commit that a version is of: that of its tag. A version without a tag that the changelog dates is of the newest commit at which
// nothing had changed since; one that the changelog does not date is to come, and HEAD is what there is of it.
func sourceOf(ctx context.Context, repository, version string) (string, error) {
	if commit, err := git(ctx, repository, "rev-parse", "--verify", "--quiet", "refs/tags/"+version+"^{commit}"); err == nil {
		return commit, nil
	}
	changed, err := git(ctx, repository, "log", "--format=%H", "HEAD", "--", "CHANGELOG.md")
	if err != nil {
		return "", err
	}
	dated := "## [" + strings.TrimPrefix(version, "v") + "] - "
	for _, commit := range append([]string{"HEAD"}, strings.Fields(changed)...) {
		changelog, err := git(ctx, repository, "show", commit+":CHANGELOG.md")
		if err != nil {
			return "", err
		}
		if commit == "HEAD" && !strings.Contains(changelog, "\n"+dated) {
			return commit, nil
		}
		if _, after, ok := strings.Cut(changelog, "\n## [Unreleased]\n"); ok && strings.HasPrefix(strings.TrimSpace(after), dated) {
			return commit, nil
		}
	}
	return "", fmt.Errorf("%s is released, and this clone has neither its tag nor a commit that is it: git fetch --tags --unshallow", version)
}

// build makes the release that the README names, as make release does, for this platform only.
func build(t *testing.T) release {
	t.Helper()
	clone, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	r := release{version: readmeVersion(t), folder: filepath.Join(t.TempDir(), "dist")}
	commit, err := sourceOf(t.Context(), clone, r.version)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the README installs %s: %s", r.version, commit)
	command := exec.CommandContext(t.Context(), "go", "run", ".", "build", "--repository", clone, "--ref", commit, "--version", r.version,
		"--out", r.folder, "--only", "linux/"+runtime.GOARCH, "--without-evidence")
	command.Dir = filepath.Join(clone, "hack", "release")
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("making release %s of %s: %v\n%s", r.version, commit, err, out)
	}
	r.plugin = unpack(t, filepath.Join(r.folder, fmt.Sprintf("kubectl-trellis_%s_linux_%s.tar.gz", r.version, runtime.GOARCH)), "kubectl-trellis")
	r.manager = unpack(t, layer(t, filepath.Join(r.folder, "trellis-manager")), "trellis-manager")
	return r
}

// layer is the file of the only layer of the only image in an OCI layout.
func layer(t *testing.T, layout string) string {
	t.Helper()
	type part struct{ Digest string }
	for file := filepath.Join(layout, "index.json"); ; {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var next struct{ Manifests, Layers []part }
		if err := json.Unmarshal(raw, &next); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		parts := append(next.Manifests, next.Layers...)
		if len(parts) != 1 {
			t.Fatalf("%s has %d parts, want 1", file, len(parts))
		}
		file = filepath.Join(layout, "blobs", strings.ReplaceAll(parts[0].Digest, ":", string(filepath.Separator)))
		if len(next.Layers) == 1 {
			return file
		}
	}
}

// unpack takes a program out of an archive.
func unpack(t *testing.T, archive, program string) string {
	t.Helper()
	packed, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	plain, err := gzip.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	for files := tar.NewReader(plain); ; {
		header, err := files.Next()
		if err != nil {
			t.Fatalf("%s has no %s: %v", archive, program, err)
		}
		if header.Name != program {
			continue
		}
		data, err := io.ReadAll(files)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), program)
		if err := os.WriteFile(path, data, 0o700); err != nil { //nolint:gosec // a program
			t.Fatal(err)
		}
		return path
	}
}

// TestSourceOf: which commit a version is of, in a repository that goes through a release.
func TestSourceOf(t *testing.T) {
	dir := t.TempDir()
	run := func(args ...string) string {
		t.Helper()
		out, err := git(t.Context(), dir, append([]string{"-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgSign=false"}, args...)...)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	commit := func(changelog string) string {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, "CHANGELOG.md"), []byte("# Changelog\n\n"+changelog), 0o600); err != nil {
			t.Fatal(err)
		}
		run("add", ".")
		run("commit", "--quiet", "--allow-empty", "--message=x")
		return run("rev-parse", "HEAD")
	}
	check := func(when, want string) {
		t.Helper()
		got, err := sourceOf(t.Context(), dir, "v0.2.0")
		if err != nil {
			got = err.Error()
		}
		if got != want && (!strings.Contains(want, "neither") || !strings.Contains(got, want)) {
			t.Errorf("%s: got %s, want %s", when, got, want)
		}
	}
	run("init", "--quiet")
	commit("## [Unreleased]\n\n- New.\n\n## [0.1.0] - 2026-11-22\n")
	check("before the changelog dates it", "HEAD")
	changelog := "## [Unreleased]\n\n## [0.2.0] - 2026-12-01\n\n- New.\n\n## [0.1.0] - 2026-11-22\n"
	released := commit(changelog)
	check("at the commit that is released", "HEAD")
	later := strings.Replace(changelog, "## [0.2.0]", "- Newer.\n\n## [0.2.0]", 1)
	commit(later)
	check("after a change", released)
	commit(strings.Replace(later, "## [0.2.0]", "## [0.3.0] - 2026-12-24\n\n## [0.2.0]", 1))
	check("after the next release", released)
	run("tag", "v0.2.0", "HEAD~1")
	check("where the tag says otherwise", run("rev-parse", "HEAD~1"))
	run("tag", "--delete", "v0.2.0")
	run("checkout", "--quiet", "--orphan", "shallow")
	commit(later)
	check("in a clone without history", "this clone has neither its tag nor a commit")
}
