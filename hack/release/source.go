// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/semver"

	"github.com/trellis-k8s/trellis/hack/evidence"
)

// source is the clean clone from which everything is built.
type source struct {
	dir    string
	commit string
	time   time.Time // time of the commit, and of all artefacts
}

// checkout clones a commit of a repository into dir, without its tags, and tags it only with the version, because the Go toolchain records
// the tag in binaries.
func checkout(ctx context.Context, o options, dir string, say func(string, ...any)) (source, error) {
	repository := o.repository
	head, err := run(ctx, repository, nil, "git", "log", "-1", "--format=%H %ct", cmp.Or(o.ref, "HEAD"), "--")
	if err != nil {
		return source{}, err
	}
	commit, seconds, _ := strings.Cut(head, " ")
	stamp, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return source{}, fmt.Errorf("reading the commit's time: %w", err)
	}
	if changed, err := run(ctx, repository, nil, "git", "status", "--porcelain"); err != nil {
		return source{}, err
	} else if changed != "" && cmp.Or(o.ref, "HEAD") == "HEAD" {
		say("these changes are not committed and not in the release:\n%s", changed)
	}
	for _, args := range [][]string{
		{"clone", "--quiet", "--shared", "--no-tags", "--no-checkout", ".", dir},
		{"-C", dir, "checkout", "--quiet", "--detach", commit},
		{"-C", dir, "-c", "tag.gpgSign=false", "tag", o.version},
	} {
		if _, err := run(ctx, repository, nil, "git", args...); err != nil {
			return source{}, err
		}
	}
	return source{dir: dir, commit: commit, time: time.Unix(stamp, 0).UTC()}, nil
}

// run runs a command in a folder and returns its output without the last newline.
func run(ctx context.Context, dir string, env []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(errOut.String()))
	}
	return strings.TrimRight(out.String(), "\n"), nil
}

// compile builds a program for several platforms.
func (r *release) compile(ctx context.Context, program string, platforms []platform) ([]binary, error) {
	var built []binary
	for _, p := range platforms {
		r.say("building %s for %s", program, p)
		name := program
		if p.os == "windows" {
			name += ".exe"
		}
		b := binary{program: program, platform: p, path: filepath.Join(r.work, p.os+"-"+p.arch, name)}
		// The environment resets every other variable that could change the result to its default.
		env := []string{
			"GOOS=" + p.os, "GOARCH=" + p.arch, "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off", "GOEXPERIMENT=", "GOAMD64=v1", "GOARM64=v8.0",
			"GOFIPS140=off",
		}
		if _, err := run(ctx, r.dir, env, "go", "build", "-trimpath", "-buildvcs=true", "-ldflags=-s -w", "-o", b.path,
			"./cmd/"+program); err != nil {
			return nil, err
		}
		built = append(built, b)
	}
	return built, nil
}

// full reports whether the version is not a pre-release.
func (r *release) full() bool { return semver.Prerelease(r.version) == "" }

// checkNamed returns an error for a full release whose commit names another version: kubectl apply -k and helm install from the tag, and
// the commands in the pages, must install the released version.
func (r *release) checkNamed() error {
	if !r.full() {
		return nil
	}
	found, _, err := findMentions(r.dir)
	if err != nil {
		return err
	}
	for _, must := range []string{"config/manager/kustomization.yaml", "charts/trellis/Chart.yaml"} {
		if !slices.ContainsFunc(found, func(m mention) bool { return m.file == must }) {
			return fmt.Errorf("%s names no version, want %s", must, r.version)
		}
	}
	for _, m := range found {
		if "v"+m.version != r.version {
			return fmt.Errorf("%s names v%s, want %s: run make prepare-release VERSION=%s, and commit what it writes", m.file, m.version, r.version,
				r.version)
		}
	}
	return nil
}

// checkEvidence returns an error for a full release whose code is newer than the long runs that cover it.
func (r *release) checkEvidence(ctx context.Context) error {
	if !r.full() || r.withoutEvidence {
		return nil
	}
	if err := evidence.Check(ctx, r.dir); err != nil {
		return fmt.Errorf("%s needs a run of each of these that passed on its code (make evidence lists them):\n%w", r.version, err)
	}
	return nil
}

// heading matches the heading of a version in the changelog, such as "## [0.1.0] - 2026-11-30".
var heading = regexp.MustCompile(`(?m)^## \[([^\]]+)\].*\n`)

// notes returns the changelog's section of the version; for a pre-release, the unreleased changes.
func (r *release) notes() (string, error) {
	raw, err := os.ReadFile(filepath.Join(r.dir, "CHANGELOG.md"))
	if err != nil {
		return "", err
	}
	want := strings.TrimPrefix(r.version, "v")
	section, ok := sectionOf(string(raw), want)
	if !ok && !r.full() {
		want = "Unreleased"
		section, ok = sectionOf(string(raw), want)
	}
	if !ok {
		return "", fmt.Errorf("CHANGELOG.md has no section ## [%s]", want)
	}
	return "# Trellis " + r.version + "\n\n" + section + "\n", nil
}

// sectionOf returns the text below the heading of a version, without the links at the end of the changelog.
func sectionOf(changelog, version string) (string, bool) {
	if links := regexp.MustCompile(`(?m)^\[[^\]]+\]: `).FindStringIndex(changelog); links != nil {
		changelog = changelog[:links[0]]
	}
	all := heading.FindAllStringSubmatchIndex(changelog, -1)
	for i, at := range all {
		if changelog[at[2]:at[3]] != version {
			continue
		}
		end := len(changelog)
		if i+1 < len(all) {
			end = all[i+1][0]
		}
		return strings.TrimSpace(changelog[at[1]:end]), true
	}
	return "", false
}
