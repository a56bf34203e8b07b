// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/trellis-k8s/trellis/internal/cli/plugin"
	"github.com/trellis-k8s/trellis/internal/cli/text"
	"github.com/trellis-k8s/trellis/test/testutil/terminal"
)

// end marks the end of what is written to a terminal. Closing the terminal does not: the kernel may drop what was written but not yet read.
const end = '\x00'

// onTerminal runs the plugin on a terminal of so many columns and returns what it shows, and how it ends.
func onTerminal(t *testing.T, columns uint16, args ...string) (shown string, err error) {
	t.Helper()
	tty, screen := terminal.Open(t)
	if err := unix.IoctlSetWinsize(int(tty.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: columns, Row: 50}); err != nil {
		t.Fatal(err)
	}
	read := make(chan string)
	go func() {
		all, _ := bufio.NewReader(screen).ReadString(end)
		read <- strings.TrimSuffix(all, string(end))
	}()
	cmd := plugin.NewCommand(genericiooptions.IOStreams{In: strings.NewReader(""), Out: tty, ErrOut: tty})
	cmd.SetArgs(args)
	err = cmd.ExecuteContext(t.Context())
	if _, err := tty.Write([]byte{end}); err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(<-read, "\r\n", "\n"), err
}

// paths are the arguments that lead to each command that is shown.
func paths(cmd *cobra.Command, path []string) [][]string {
	all := [][]string{path}
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() && sub.Name() != "completion" {
			all = append(all, paths(sub, append(slices.Clone(path), sub.Name()))...)
		}
	}
	return all
}

// TestHelpFitsTheTerminal: no line of a help is wider than the terminal, but for the commands of an example, and a single word.
func TestHelpFitsTheTerminal(t *testing.T) {
	all := paths(plugin.NewCommand(genericiooptions.NewTestIOStreamsDiscard()), nil)
	if len(all) < 10 {
		t.Errorf("%d commands only", len(all))
	}
	for _, columns := range []uint16{80, 100, 160} {
		t.Run(fmt.Sprint(columns), func(t *testing.T) {
			for _, path := range append(all, []string{"options"}, []string{"nonsense"}) {
				args := append(slices.Clone(path), "--help")
				if slices.Equal(path, []string{"options"}) || slices.Equal(path, []string{"nonsense"}) {
					args = path
				}
				got, _ := onTerminal(t, columns, args...) // an unknown command shows its usage as well
				if !strings.Contains(got, "Usage:") && path[0] != "options" {
					t.Errorf("%v: no usage in\n%s", args, got)
				}
				for line := range strings.Lines(got) {
					if width := text.Width(strings.TrimSuffix(line, "\n")); width > int(columns) && !strings.HasPrefix(line, "  kubectl ") && len(strings.Fields(line)) > 1 {
						t.Errorf("%v: %d columns: %s", args, width, line)
					}
				}
			}
		})
	}
}

// TestHelpShowsOwnFlags: the flags of a command are not among those of kubectl, which options lists.
func TestHelpShowsOwnFlags(t *testing.T) {
	help, err := run(t, "tree", "--help")
	if err != nil || !strings.Contains(help, "--free") || strings.Contains(help, "--kubeconfig") || !strings.Contains(help, `"kubectl trellis options"`) {
		t.Errorf("%v\n%s", err, help)
	}
	own, last, found := strings.Cut(help, "\nGlobal Flags:\n")
	if global := strings.Count(last, "\n  "); !found || strings.Contains(own, "--template") || strings.Contains(own, "--help") || global > 5 ||
		!strings.Contains(last, "--namespace") || !strings.Contains(last, "--help") {
		t.Errorf("the global flags are not the last, or not few:\n%s", help)
	}
	if options, err := run(t, "options"); err != nil || !strings.Contains(options, "--kubeconfig") || !strings.Contains(options, "--namespace") || !strings.Contains(options, "--template") || strings.Contains(options, "--free") {
		t.Errorf("%v\n%s", err, options)
	}
	if help, err := run(t, "plan", "--help"); err != nil || !strings.Contains(help, "--cluster ") {
		t.Errorf("a flag that has the name of one of kubectl: %v\n%s", err, help)
	}
}

// TestMisuse: an error names what is wrong and how it is right.
func TestMisuse(t *testing.T) {
	for line, want := range map[string][]string{
		"tree --free x":           {"--free x: want a whole number"},
		"status a --timeout soon": {"--timeout soon: want a duration such as 30s"},
		"tree --depth 1.5":        {"--depth 1.5: want a whole number"},
		"tree --topologi x":       {"unknown flag: --topologi", "did you mean --topology?", "See 'kubectl trellis tree --help'"},
		"explain":                 {"a name is missing", "Usage:\n  kubectl trellis explain (NAME", "Example:\n  kubectl trellis explain dgd my-llm"},
		"status":                  {"a name is missing", "Example:\n  kubectl trellis status dgd/my-llm"},
		"explain dgd a b":         {"dgd a b: want one object"},
		"queue team-a":            {"team-a: this command takes no arguments", "Example:\n  kubectl trellis queue"},
		"statsu a":                {`unknown command "statsu" for "kubectl trellis"; did you mean "status"?`},
		"topology sugest":         {`did you mean "suggest"?`},
		"completion bsah":         {`unknown command "bsah" for "kubectl trellis completion"; did you mean "bash"?`},
		"completion foo":          {`unknown command "foo" for "kubectl trellis completion"`},
		"help tre":                {`did you mean "tree"?`},
	} {
		_, err := run(t, strings.Fields(line)...)
		for _, part := range want {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%s: got %v, want %q", line, err, part)
			}
		}
		if err != nil && (strings.Contains(err.Error(), "strconv") || strings.Contains(err.Error(), "arg(s)")) {
			t.Errorf("%s: %v", line, err)
		}
	}
}
