// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/trellis-k8s/trellis/internal/cli"
	"github.com/trellis-k8s/trellis/internal/cli/live"
	"github.com/trellis-k8s/trellis/internal/cli/plugin"
)

// TestExitCodes: the codes that docs/cli.md lists, and no others.
func TestExitCodes(t *testing.T) {
	data := filepath.Join("..", "..", "internal", "cli", "plan", "testdata")
	files := func(names ...string) []string {
		args := []string{"plan"}
		for _, name := range names {
			args = append(args, "-f", filepath.Join(data, name))
		}
		return args
	}
	nowhere := []string{"--server", "http://127.0.0.1:1", "--request-timeout", "1s"}
	used := map[int]bool{int(live.ExitSilent): true} // TestSilentOperator
	for name, tc := range map[string]struct {
		args []string
		code int
	}{
		"help":                      {nil, 0},
		"version of the client":     {[]string{"version", "--client"}, 0},
		"version without a cluster": {append([]string{"version"}, nowhere...), 0},
		"a plan that fits":          {files("nodes.yaml", "topology.yaml", "chat.yaml"), 0},
		"a plan that does not":      {files("nodes.yaml", "topology.yaml", "chat-large.yaml"), 2},
		"a plan of nothing":         {files("nodes.yaml"), 1},
		"no such file":              {files("no-such-file.yaml"), 1},
		"no such command":           {[]string{"nonsense"}, 1},
		"no such shell":             {[]string{"completion", "foo"}, 1},
		"no such help topic":        {[]string{"help", "nonsense"}, 1},
		"help of a command":         {[]string{"help", "topology", "suggest"}, 0},
		"options":                   {[]string{"options"}, 0},
		"no name":                   {[]string{"explain"}, 1},
		"no number":                 {[]string{"tree", "--free", "x"}, 1},
		"no such flag":              {[]string{"queue", "--nonsense"}, 1},
		"no such format":            {[]string{"queue", "-o", "nonsense"}, 1},
		"too many arguments":        {[]string{"explain", "dgd", "a", "b"}, 1},
		"no cluster":                {append([]string{"queue"}, nowhere...), 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
			streams, _, _, _ := genericiooptions.NewTestIOStreams()
			cmd := plugin.NewCommand(streams)
			cmd.SetArgs(append([]string{}, tc.args...))
			cmd.SetOut(streams.Out)
			cmd.SetErr(streams.ErrOut)
			err := cmd.ExecuteContext(t.Context())
			if code, _ := cli.ExitCode(err); code != tc.code {
				t.Errorf("exit code %d (%v), want %d", code, err, tc.code)
			}
		})
		used[tc.code] = true
	}
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "cli.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "## Exit codes")
	section, _, _ = strings.Cut(section, "\n## ")
	for code := range 256 {
		if listed := strings.Contains(section, fmt.Sprintf("\n| %d |", code)); listed != used[code] {
			t.Errorf("exit code %d: docs/cli.md lists it %v, it is used %v", code, listed, used[code])
		}
	}
}
