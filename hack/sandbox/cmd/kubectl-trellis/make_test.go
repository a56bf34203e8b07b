// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// clone returns a folder with the Makefile and the sources of this clone, and with the plugin in bin.
func clone(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs(filepath.Join("..", "..", "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, name := range []string{"Makefile", "make", "go.mod", "hack", "internal", "test"} {
		if err := os.Symlink(filepath.Join(root, name), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(dir, "bin", "kubectl-trellis"), ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the plugin: %v\n%s", err, out)
	}
	return dir
}

// runMake makes a target whose dependency build is there, and returns what it wrote, without what make itself says of the failure. code is
// the exit code of the recipe.
func runMake(t *testing.T, dir, target string, env ...string) (lines []string, code string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "make", "--no-print-directory", "-o", "build", target)
	cmd.Dir = dir
	cmd.Env = slices.DeleteFunc(append(os.Environ(), append(env, "LC_ALL=C")...), func(variable string) bool { // of the make that runs this test
		name, _, _ := strings.Cut(variable, "=")
		return slices.Contains([]string{"MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES"}, name)
	})
	out, err := cmd.CombinedOutput()
	if err == nil {
		t.Fatalf("make %s succeeds:\n%s", target, out)
	}
	for line := range strings.Lines(string(out)) {
		line = strings.TrimSuffix(line, "\n")
		if said, is := strings.CutPrefix(line, "make: *** "); is {
			_, code, _ = strings.Cut(said, "] ")
			continue
		}
		lines = append(lines, line)
	}
	return lines, code
}

// TestMakeWithoutPeers: where a peer is missing, make says in one line what is missing and that it did nothing, and ends with exit code 2.
func TestMakeWithoutPeers(t *testing.T) {
	dir, nothing := clone(t), t.TempDir()
	for name, tc := range map[string]struct {
		target string
		env    []string
		want   []string
	}{
		"no programs": {
			"test-peers", []string{"PEERS_SRC=" + nothing, "PEERS_BIN="},
			[]string{"make test-peers did nothing: KAI and Grove: ", "PEERS_SRC=" + nothing + " lacks kai, grove", "PEERS_BIN is not set"},
		},
		"one peer": {
			"test-peers", []string{"PEERS=KAI", "PEERS_SRC=" + nothing, "PEERS_BIN=" + nothing},
			[]string{"make test-peers did nothing: KAI: ", "PEERS_BIN=" + nothing + " lacks kai-scheduler, ", "docs/dev/development.md#"},
		},
		"a name that no peer has": {
			"test-peers", []string{"PEERS=Kai"}, []string{`make test-peers did nothing: peer "Kai": there are KAI, `},
		},
		"the sources cannot be cloned": {
			"test-peers", []string{
				"PEERS=KAI", "PEERS_SRC=", "PEERS_BIN=" + nothing, "XDG_CACHE_HOME=" + t.TempDir(),
				"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=url." + nothing + "/.insteadOf", "GIT_CONFIG_VALUE_0=https://github.com/",
			},
			[]string{"make test-peers did nothing: cloning https://github.com/", "git fetch", "or set PEERS_SRC to a folder that has it"},
		},
		"for the benchmark": {
			"bench-peers", []string{"PEERS_SRC=" + nothing, "PEERS_BIN=" + nothing},
			[]string{"make bench-peers did nothing: KAI and Grove: ", "lacks kai-scheduler, "},
		},
	} {
		t.Run(name, func(t *testing.T) {
			lines, code := runMake(t, dir, tc.target, tc.env...)
			if code != "Error 2" {
				t.Errorf("the recipe ends with %q, want exit code 2", code)
			}
			if len(lines) != 1 {
				t.Errorf("%d lines, want one:\n%s", len(lines), strings.Join(lines, "\n"))
			}
			for _, want := range tc.want {
				if !strings.Contains(strings.Join(lines, "\n"), want) {
					t.Errorf("%q is missing in:\n%s", want, strings.Join(lines, "\n"))
				}
			}
		})
	}
}
