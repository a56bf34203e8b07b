// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trellis-k8s/trellis/test/testutil/simulated"
)

func TestOptions(t *testing.T) {
	root := t.TempDir()
	tests := map[string]struct {
		opts Options
		err  []string
	}{
		"fine":               {Options{}, nil},
		"bad name":           {Options{Name: "Not/Good"}, []string{"Not/Good", "lower-case"}},
		"unknown provider":   {Options{Provider: "Magic"}, []string{"Magic", "Gates", "PodGroup"}},
		"no peers":           {Options{Provider: Grove}, []string{"provider Grove", "no peers"}},
		"with peers":         {Options{Provider: Grove, Peers: &Peers{}}, nil},
		"long directory":     {Options{Dir: "/" + strings.Repeat("x", 120)}, []string{"too long"}},
		"no manager yet":     {Options{Operator: true}, []string{"make build", "trellis-manager"}},
		"shape is looked at": {Options{Shape: simulated.Shape{Zones: -4}}, []string{"zones"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			tc.opts.Root = root
			_, err := tc.opts.complete()
			if tc.err != nil {
				mustContain(t, err, tc.err...)
			} else if err != nil {
				t.Error(err)
			}
		})
	}
}

// Neither up nor down may touch a directory with other files.
func TestForeignDirectory(t *testing.T) {
	dir := t.TempDir()
	thesis := filepath.Join(dir, "thesis.tex")
	for _, name := range []string{thesis, filepath.Join(dir, kubeconfigFile), filepath.Join(dir, lockFile)} {
		if err := os.WriteFile(name, []byte("mine"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	mustContain(t, Down(t.Context(), dir), "thesis.tex", "does not belong to a sandbox")
	s := &Sandbox{dir: dir}
	_, err := s.lock(t.Context(), nil)
	mustContain(t, err, "thesis.tex")
	if data, err := os.ReadFile(thesis); err != nil || string(data) != "mine" {
		t.Errorf("the file is gone: %v", err)
	}
}

func TestLostPort(t *testing.T) {
	tests := map[string]struct {
		log  string
		want bool
	}{
		"taken":     {"starting\nlisten tcp 127.0.0.1:20001: bind: address already in use\n", true},
		"other end": {"panic: no such flag\n", false},
		"no log":    {"", false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "log")
			if err := os.WriteFile(file, []byte(tc.log), 0o600); err != nil {
				t.Fatal(err)
			}
			if got := lostPort(file); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

func TestEnvironment(t *testing.T) {
	for name, value := range map[string]string{
		"HTTPS_PROXY": "http://proxy", "http_proxy": "http://proxy", "KUBECONFIG": "/home/me/.kube/config", "KEPT": "yes", envMark: "/other",
	} {
		t.Setenv(name, value)
	}
	env := strings.Join((&Sandbox{dir: "/d"}).environment(), "\n")
	for _, unwanted := range []string{"proxy", "KUBECONFIG", "/other"} {
		if strings.Contains(env, unwanted) {
			t.Errorf("components see %q", unwanted)
		}
	}
	for _, wanted := range []string{"KEPT=yes", envMark + "=/d"} {
		if !strings.Contains(env, wanted) {
			t.Errorf("components do not see %q", wanted)
		}
	}
}
