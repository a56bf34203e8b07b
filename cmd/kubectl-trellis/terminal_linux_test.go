// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/trellis-k8s/trellis/internal/cli"
	"github.com/trellis-k8s/trellis/internal/cli/text"
)

// planned are the arguments of a plan in which something is not placed.
func planned() []string {
	args := []string{"plan"}
	for _, file := range []string{"nodes.yaml", "topology.yaml", "chat-large.yaml"} {
		args = append(args, "-f", filepath.Join("..", "..", "internal", "cli", "plan", "testdata", file))
	}
	return args
}

// TestOnATerminal: what a command writes to a terminal is as wide as that, and coloured; -o json and NO_COLOR have no colours.
func TestOnATerminal(t *testing.T) {
	color := regexp.MustCompile("\x1b\\[[0-9;]*m")
	for name, tc := range map[string]struct {
		columns uint16
		noColor string
		args    []string
		colored bool
	}{
		"80":       {80, "", nil, true},
		"100":      {100, "", nil, true},
		"160":      {160, "", nil, true},
		"NO_COLOR": {80, "1", nil, false},
		"json":     {80, "", []string{"-o", "json"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("NO_COLOR", tc.noColor)
			t.Setenv("TERM", "xterm")
			got, err := onTerminal(t, tc.columns, append(planned(), tc.args...)...)
			if code, _ := cli.ExitCode(err); code != 2 {
				t.Errorf("exit code %d", code)
			}
			if color.MatchString(got) != tc.colored {
				t.Errorf("colours %v, want %v in\n%s", !tc.colored, tc.colored, got)
			}
			for line := range strings.Lines(got) {
				if width := text.Width(strings.TrimSuffix(line, "\n")); width > int(tc.columns) && tc.args == nil {
					t.Errorf("%d columns: %s", width, line)
				}
			}
			if !strings.Contains(got, "chat") {
				t.Errorf("got %q", got)
			}
			t.Logf("\n%s", got)
		})
	}
}
