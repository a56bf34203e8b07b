// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/trellis-k8s/trellis/hack/git"
	"github.com/trellis-k8s/trellis/hack/sandbox/progress"
)

// repository makes a repository with two commits and returns the first one.
func repository(t *testing.T) (dir, first string) {
	t.Helper()
	dir = t.TempDir()
	run := func(args ...string) string {
		t.Helper()
		out, err := git.Run(t.Context(), dir, append([]string{"-c", "user.name=a", "-c", "user.email=a@example.com"}, args...)...)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	run("init", "--quiet")
	for _, text := range []string{"first", "second"} {
		if err := write(filepath.Join(dir, "file"), text); err != nil {
			t.Fatal(err)
		}
		run("add", "file")
		run("commit", "--quiet", "-m", text)
	}
	return dir, run("rev-parse", "HEAD^")
}

// The pinned commit is cloned, not the newest, and once.
func TestClone(t *testing.T) {
	upstream, commit := repository(t)
	from, dir := pinned{"v1", upstream, commit}, filepath.Join(t.TempDir(), "sources", "kai")
	said := 0
	count := progress.Func(func(progress.Event) { said++ })
	for range 2 {
		if err := from.clone(t.Context(), dir, count); err != nil {
			t.Fatal(err)
		}
	}
	if text, err := os.ReadFile(filepath.Join(dir, "file")); err != nil || string(text) != "first" || said != 1 {
		t.Errorf("%q is checked out (%v), after %d clones; want the first commit, after 1", text, err, said)
	}
	s := &Set{sources: filepath.Dir(dir), programs: t.TempDir()}
	s.peers = []peer{{name: "KAI", sources: "kai", from: from, programs: []program{{name: "kai"}}}, {name: "LeaderWorkerSet", module: lwsModule}}
	want := []string{"KAI v1: sources of commit " + commit[:8] + ", programs of an unknown commit", "LeaderWorkerSet v0.9.0"}
	if diff := cmp.Diff(want, s.Versions(t.Context())); diff != "" {
		t.Error(diff)
	}

	missing := pinned{"v2", upstream, strings.Repeat("0", 40)}
	if err := missing.clone(t.Context(), dir+"2", progress.Discard); err == nil {
		t.Error("a commit that is not there is cloned")
	}
	left, err := os.ReadDir(filepath.Dir(dir))
	if err != nil || len(left) != 1 {
		t.Errorf("left are %v (%v), want the clone alone", left, err)
	}
}

// What is not the pinned commit is said, of sources and of programs; a folder inside another repository is no checkout of its own.
func TestVersions(t *testing.T) {
	upstream, commit := repository(t)
	s := &Set{sources: filepath.Dir(upstream), programs: t.TempDir()}
	p := peer{name: "KAI", sources: filepath.Base(upstream), from: pinned{"v1", "", commit}, programs: []program{{name: "one"}, {name: "two"}}}
	head, err := git.Run(t.Context(), upstream, "rev-parse", "HEAD")
	if err != nil {
		t.Fatal(err)
	}
	if got := s.sourceCommit(t.Context(), p); got != head {
		t.Errorf("the sources are of %q, want %q", got, head)
	}
	for given, want := range map[string]string{
		"": "of an unknown commit", commit: "of commit " + commit[:8], commit + "+changes": "of commit " + commit[:8] + " with changes",
		head: "of commit " + head[:8] + ", and v1 is " + commit[:8],
	} {
		if got := p.from.compared(given); got != want {
			t.Errorf("%q: %q, want %q", given, got, want)
		}
	}
	inside := filepath.Join(upstream, "inside")
	if err := os.Mkdir(inside, 0o700); err != nil {
		t.Fatal(err)
	}
	if got := (&Set{sources: upstream}).sourceCommit(t.Context(), peer{sources: "inside"}); got != "" {
		t.Errorf("a folder of another repository is of %q", got)
	}
}

// A program that Go built in a repository knows its commit.
func TestRevisionOfAProgram(t *testing.T) {
	dir, _ := repository(t)
	if err := write(filepath.Join(dir, "go.mod"), "module example.com/program\n\ngo 1.21\n"); err != nil {
		t.Fatal(err)
	}
	if err := write(filepath.Join(dir, "main.go"), "package main\n\nfunc main() {}\n"); err != nil {
		t.Fatal(err)
	}
	head, err := git.Run(t.Context(), dir, "rev-parse", "HEAD")
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "program")
	build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=true", "-o", program, ".")
	build.Dir, build.Env = dir, append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if got := revision(program); got != head+"+changes" {
		t.Errorf("the program is of %q, want %q with changes", got, head)
	}
	if got := revision(filepath.Join(dir, "file")); got != "" {
		t.Errorf("a text is of %q", got)
	}
}

// Without PEERS_SRC what was cloned is used, and said where programs are missing.
func TestFindsWhatWasCloned(t *testing.T) {
	t.Setenv(SourcesVariable, "")
	t.Setenv(ProgramsVariable, "")
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	dir, err := sourcesOf(all)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Find(".", "KAI"); err == nil || !strings.Contains(err.Error(), "PEERS_SRC is not set") {
		t.Errorf("nothing is cloned: %v", err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "kai"), 0o700); err != nil {
		t.Fatal(err)
	}
	_, err = Find(".", "KAI")
	if err == nil || strings.Contains(err.Error(), "PEERS_SRC is not set") || !strings.Contains(err.Error(), "built from the sources in "+dir) {
		t.Errorf("without programs: %v", err)
	}
	if err := Clone(t.Context(), progress.Discard, "KAI", "LeaderWorkerSet"); err != nil {
		t.Errorf("what is there is cloned again: %v", err)
	}
	t.Setenv(SourcesVariable, t.TempDir())
	if err := Clone(t.Context(), progress.Discard, "Grove"); err != nil {
		t.Errorf("cloned although the sources are named: %v", err)
	}
}
