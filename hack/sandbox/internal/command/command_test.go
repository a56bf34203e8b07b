// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trellis-k8s/trellis/hack/sandbox"
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
	t.Setenv("PEERS_SRC", "")
	t.Setenv("PEERS_BIN", "")
	for _, more := range []string{"--provider=Gates", "--provider=Gates", "--provider=KAI"} { // what runs needs no peers
		if out, err := run(t, append(up, more)...); err != nil || !strings.HasSuffix("\n"+out, "\n"+want) {
			t.Fatalf("up %s: %q (%v), want the last line %q", more, out, err, want)
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
		"unknown provider":     {[]string{"up", "--provider=Magic"}, `provider "Magic": the sandbox knows [Gates PodGroup KAI Grove LeaderWorkerSet]`},
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

// Without the sources or the programs of a peer nothing starts, and the message describes what to provide.
func TestSandboxWithoutPeers(t *testing.T) {
	empty := t.TempDir()
	programs := filepath.Join(t.TempDir(), "bin")
	if err := os.MkdirAll(filepath.Join(programs, "kai"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"kai-scheduler", "kai-binder", "kai-podgrouper", "kai-podgroupcontroller"} {
		if err := os.WriteFile(filepath.Join(programs, name), nil, 0o700); err != nil { //nolint:gosec // a program
			t.Fatal(err)
		}
	}
	tests := map[string]struct {
		provider, sources, programs string
		want                        []string
	}{
		"nothing set": {"KAI", "", "", []string{"--provider KAI: KAI: PEERS_SRC is not set; PEERS_BIN is not set.", "sources (kai)", "docs/dev/development.md#the-real"}},
		"no programs": {"KAI", programs, "", []string{"KAI: PEERS_BIN is not set."}},
		"one program is missing": {"KAI", programs, programs, []string{
			"KAI: PEERS_BIN=" + programs + " lacks kai-queuecontroller. ", "that of the programs (kai-scheduler, kai-binder, kai-podgrouper,",
		}},
		"no sources":    {"KAI", empty, programs, []string{"PEERS_SRC=" + empty + " lacks kai;"}},
		"Grove has two": {"Grove", programs, programs, []string{"KAI and Grove: PEERS_SRC=", " lacks grove;", "lacks kai-queuecontroller, grove-operator."}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Setenv("XDG_CACHE_HOME", t.TempDir()) // no cloned sources
			t.Setenv("PEERS_SRC", tc.sources)
			t.Setenv("PEERS_BIN", tc.programs)
			dir := filepath.Join(t.TempDir(), "s")
			_, err := run(t, "up", "--dir", dir, "--provider", tc.provider)
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %v, want one with %q", err, want)
				}
			}
			if _, err := os.Stat(dir); !os.IsNotExist(err) {
				t.Errorf("something was started: %v", err)
			}
		})
	}
}

// What the operator is started with, which peers, and what the user is to know.
func TestUseProvider(t *testing.T) {
	t.Setenv("PEERS_SRC", "")
	t.Setenv("PEERS_BIN", "")
	tests := map[sandbox.Provider]struct {
		operator   bool
		args, hint string
		peers      []string
	}{
		sandbox.Gates:           {true, "", "", nil},
		sandbox.PodGroup:        {false, "--provider=PodGroup", "start your operator with --provider=PodGroup\n", nil},
		sandbox.LeaderWorkerSet: {true, "", "annotation trellis.dev/workload: LeaderWorkerSet\n", []string{"lws"}},
	}
	for provider, tc := range tests {
		t.Run(string(provider), func(t *testing.T) {
			opts := sandbox.Options{Provider: provider, Operator: tc.operator}
			if err := useProvider(&opts); err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(opts.Manager.Args, " "); got != tc.args {
				t.Errorf("the operator has %q, want %q", got, tc.args)
			}
			if got := hint(opts); !strings.HasSuffix(got, tc.hint) || (tc.hint == "") != (got == "") {
				t.Errorf("hint %q, want %q", got, tc.hint)
			}
			var programs []string
			if opts.Peers != nil {
				programs = slices.Sorted(maps.Keys(opts.Peers.Ports))
			}
			if !slices.Equal(programs, tc.peers) {
				t.Errorf("programs %v, want %v", programs, tc.peers)
			}
		})
	}
}

// What runs alongside any provider is started with what the operator needs for it.
func TestUseWith(t *testing.T) {
	t.Setenv("PEERS_SRC", "")
	t.Setenv("PEERS_BIN", "")
	for with, tc := range map[string]struct {
		args  string
		peers []string
	}{
		"kueue":           {"", []string{"kueue"}},
		"karpenter":       {"--capacity-requests=Placeholders", []string{"karpenter"}},
		"Kueue,Karpenter": {"--capacity-requests=Placeholders", []string{"karpenter", "kueue"}},
	} {
		opts := sandbox.Options{Provider: sandbox.Gates, Operator: true}
		if err := useProvider(&opts, strings.Split(with, ",")...); err != nil {
			t.Fatalf("%s: %v", with, err)
		}
		if got := strings.Join(opts.Manager.Args, " "); got != tc.args {
			t.Errorf("%s: the operator has %q, want %q", with, got, tc.args)
		}
		if got := slices.Sorted(maps.Keys(opts.Peers.Ports)); !slices.Equal(got, tc.peers) {
			t.Errorf("%s: programs %v, want %v", with, got, tc.peers)
		}
	}
	if err := useProvider(&sandbox.Options{Provider: sandbox.Gates}, "volcano"); err == nil || !strings.Contains(err.Error(), "there are Kueue, Karpenter") {
		t.Errorf("an unknown one: %v", err)
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
