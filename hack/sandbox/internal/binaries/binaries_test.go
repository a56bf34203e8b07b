// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package binaries

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/trellis-k8s/trellis/hack/sandbox/progress"
)

// clone makes a directory that looks like a clone, with a go tool on the PATH that builds anything quickly.
// The tool notes every build; the script may use $out, the file to build.
func clone(t *testing.T, script string) (root, builds string) {
	t.Helper()
	root = t.TempDir()
	for name, content := range map[string]string{
		"hack/controlplane/go.mod":  "module m\n",
		"hack/controlplane/go.sum":  "",
		"hack/controlplane/main.go": "package main\n",
		"deep/down/file":            "",
	} {
		write(t, filepath.Join(root, name), content, 0o600)
	}
	bin := t.TempDir()
	builds = filepath.Join(bin, "builds")
	write(t, filepath.Join(bin, "go"), `#!/bin/sh
if [ "$1" = list ]; then printf 'a\nb\nmain\n'; exit; fi
echo build >> `+builds+`
while [ "$1" != -o ]; do shift; done
out=$2
`+script+"\n", 0o700)
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("HOME", t.TempDir())
	return root, builds
}

func write(t *testing.T, path, content string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
}

func TestEnsureBuildsOnce(t *testing.T) {
	root, builds := clone(t, "sleep 0.3; echo program > $out; chmod +x $out")
	var wg sync.WaitGroup
	dirs := make([]string, 4)
	for i := range dirs {
		wg.Go(func() {
			dir, err := Ensure(t.Context(), root, progress.Discard)
			if err != nil {
				t.Error(err)
			}
			dirs[i] = dir
		})
	}
	wg.Wait()
	for _, dir := range dirs {
		if dir == "" || dir != dirs[0] || !controlPlane.complete(dir) {
			t.Errorf("directory %q, want the same whole one for all", dir)
		}
	}
	if log, err := os.ReadFile(builds); err != nil || strings.Count(string(log), "build") != 1 {
		t.Errorf("built %q (%v), want once", log, err)
	}

	write(t, filepath.Join(root, moduleDir, "main.go"), "package main // changed\n", 0o600)
	changed, err := Ensure(t.Context(), root, progress.Discard)
	if err != nil || changed == dirs[0] {
		t.Errorf("after a change: %q (%v), want another directory", changed, err)
	}
	if scratch, _ := filepath.Glob(filepath.Join(filepath.Dir(changed), "*-building-*")); len(scratch) != 0 {
		t.Errorf("left behind: %v", scratch)
	}
}

// TestWaitersSeeTheProgress holds one build until a second process, which waits for it, has reported how far it is.
func TestWaitersSeeTheProgress(t *testing.T) {
	gate := filepath.Join(t.TempDir(), "gate")
	root, _ := clone(t, "echo a >&2; until [ -e "+gate+" ]; do sleep 0.05; done; echo program > $out; chmod +x $out")
	building := make(chan struct{})
	var once sync.Once
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := Ensure(t.Context(), root, func(e progress.Event) {
			if e.Text == compiling {
				once.Do(func() { close(building) })
			}
		}); err != nil {
			t.Error(err)
		}
	})
	<-building
	var heard []string
	dir, err := Ensure(t.Context(), root, func(e progress.Event) {
		heard = append(heard, e.Text)
		if e.Total > 0 {
			write(t, gate, "", 0o600)
		}
	})
	wg.Wait()
	if err != nil || !controlPlane.complete(dir) {
		t.Fatalf("%q, %v, want a whole build", dir, err)
	}
	if !strings.Contains(heard[0], "waiting") || !slices.Contains(heard, compiling) {
		t.Errorf("heard %q, want that it waits, and how far the build is", heard)
	}
	if _, err := os.Stat(dir + newsSuffix); !os.IsNotExist(err) {
		t.Errorf("the progress is left behind: %v", err)
	}
}

func TestEnsureExplainsAFailedBuild(t *testing.T) {
	root, _ := clone(t, "printf 'a\nb\n# m\nmain.go:3:1: syntax error\n' >&2; exit 1")
	var counts []int
	_, err := Ensure(t.Context(), root, func(e progress.Event) {
		if e.Total > 0 {
			counts = append(counts, e.Done)
		}
	})
	if err == nil || !strings.Contains(err.Error(), "main.go:3:1: syntax error") || !strings.Contains(err.Error(), moduleDir) {
		t.Errorf("error %v, want the compiler's words and the module", err)
	}
	if len(counts) != 2 || counts[1] != 2 {
		t.Errorf("counted %v, want 1 and 2", counts)
	}
	if cache, _ := CacheDir(); cache != "" {
		if left, _ := filepath.Glob(filepath.Join(cache, program+"-*[^k]")); len(left) != 0 {
			t.Errorf("left behind: %v", left)
		}
	}
}

func TestFindRoot(t *testing.T) {
	root, _ := clone(t, "")
	for _, dir := range []string{"", "deep", "deep/down", "hack/controlplane"} {
		if got, err := FindRoot(filepath.Join(root, dir)); err != nil || got != root {
			t.Errorf("from %q: %q (%v), want %q", dir, got, err, root)
		}
	}
	if _, err := FindRoot(t.TempDir()); !errors.Is(err, ErrNotInClone) {
		t.Errorf("elsewhere: %v, want ErrNotInClone", err)
	}
}

// A line that is too long to read ends the counting, not the reading: otherwise go build would wait for ever for its output to be read.
func TestFollowReadsToTheEnd(t *testing.T) {
	output := strings.NewReader(strings.Repeat("x", 2<<20) + "\nlast\n")
	controlPlane.follow(output, 1, progress.Discard)
	if output.Len() > 0 {
		t.Errorf("%d bytes are not read", output.Len())
	}
}

func TestIsPackage(t *testing.T) {
	for line, want := range map[string]bool{
		"fmt": true, "k8s.io/kubernetes/pkg/apis/core": true,
		"": false, "# k8s.io/kubernetes": false, "main.go:3:1: syntax error": false, "\tindented": false, "go: downloading x v1": false,
	} {
		if isPackage(line) != want {
			t.Errorf("isPackage(%q) = %v", line, !want)
		}
	}
}
