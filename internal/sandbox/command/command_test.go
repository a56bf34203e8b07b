// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// run executes the command and returns what it wrote to its standard output.
func run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	cmd := New()
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

func TestSandboxCommands(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a control plane")
	}
	parent, err := os.MkdirTemp("", "sb") // short, for a socket's sake
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(parent) })
	dir := filepath.Join(parent, "my sandbox")
	t.Cleanup(func() { _, _ = run(t, "down", "--dir", dir) })
	up := []string{"up", "--dir", dir, "--operator=false", "--zones=1", "--blocks=1", "--racks=1", "--hosts=1", "--gpus=0"}
	want := "export KUBECONFIG='" + filepath.Join(dir, "kubeconfig") + "'\n"
	for _, when := range []string{"at first", "while it runs"} {
		if out, err := run(t, up...); err != nil || !strings.HasSuffix("\n"+out, "\n"+want) {
			t.Fatalf("up %s: %q (%v), want the last line %q", when, out, err, want)
		}
	}
	if out, err := run(t, "status", "--dir", dir); err != nil || !strings.Contains(out, "1 of 1 nodes ready") || strings.Contains(out, "stopped") {
		t.Errorf("status: %s (%v), want one ready node and everything running", out, err)
	}
	for _, want := range []string{"is gone", "nothing to do"} {
		if out, err := run(t, "down", "--dir", dir); err != nil || !strings.Contains(out, want) {
			t.Errorf("down: %q (%v), want %q", out, err, want)
		}
	}
	if _, err := run(t, "status", "--dir", dir); err == nil || !strings.Contains(err.Error(), "no sandbox in "+dir) {
		t.Errorf("status of nothing: %v", err)
	}
	if left, err := os.ReadDir(parent); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v (%v)", left, err)
	}
}

func TestSandboxRefusals(t *testing.T) {
	tests := map[string]struct {
		args []string
		want string
	}{
		"two sources of nodes": {[]string{"up", "--nodes=x", "--zones=2"}, "[nodes zones]"},
		"unknown provider":     {[]string{"up", "--provider=Magic"}, `provider "Magic": the sandbox knows [Gates PodGroup]`},
		"missing nodes file":   {[]string{"up", "--operator=false", "--nodes=/no/such/file"}, "/no/such/file"},
		"no zones":             {[]string{"up", "--zones=0", "--operator=false"}, "--zones 0: want at least 1"},
		"no hosts":             {[]string{"up", "--hosts=0", "--operator=false"}, "--hosts 0: want at least 1"},
		"fewer than no GPUs":   {[]string{"up", "--gpus=-1", "--operator=false"}, "--gpus -1: want at least 0"},
		"stray argument":       {[]string{"up", "stray"}, "stray"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := run(t, append([]string{"--dir", filepath.Join(t.TempDir(), "s")}, tc.args...)...)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want one with %q", err, tc.want)
			}
		})
	}
}

func TestSandboxOutsideAClone(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, command := range []string{"up", "binaries"} {
		if _, err := run(t, command); err == nil || !strings.Contains(err.Error(), "not inside a clone") {
			t.Errorf("%s: %v, want an error about the clone", command, err)
		}
	}
}

func TestShellQuote(t *testing.T) {
	for path, want := range map[string]string{
		"/plain/path-1.x": "/plain/path-1.x",
		"/with space":     "'/with space'",
		"/it's":           `'/it'\''s'`,
		"/$HOME":          "'/$HOME'",
	} {
		if got := shellQuote(path); got != want {
			t.Errorf("shellQuote(%q) = %s, want %s", path, got, want)
		}
	}
}
