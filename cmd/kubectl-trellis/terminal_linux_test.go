// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/trellis-k8s/trellis/internal/cli"
	"github.com/trellis-k8s/trellis/internal/cli/text"
	"github.com/trellis-k8s/trellis/test/testutil/terminal"
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
			tty, screen := terminal.Open(t)
			if err := unix.IoctlSetWinsize(int(tty.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: tc.columns, Row: 50}); err != nil {
				t.Fatal(err)
			}
			read := make(chan string)
			go func() {
				var all bytes.Buffer
				_, _ = all.ReadFrom(screen) // it ends with an error when the terminal is closed
				read <- all.String()
			}()
			cmd := newRootCommand(genericiooptions.IOStreams{In: strings.NewReader(""), Out: tty, ErrOut: tty})
			cmd.SetArgs(append(planned(), tc.args...))
			if code, _ := cli.ExitCode(cmd.ExecuteContext(t.Context())); code != 2 {
				t.Errorf("exit code %d", code)
			}
			_ = tty.Close()
			got := strings.ReplaceAll(<-read, "\r\n", "\n")
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
