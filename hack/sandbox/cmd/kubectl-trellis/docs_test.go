// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"mvdan.cc/sh/v3/syntax"

	"github.com/trellis-k8s/trellis/hack/sandbox/internal/command"
	"github.com/trellis-k8s/trellis/internal/cli/plugin"
	"github.com/trellis-k8s/trellis/internal/operator"
)

var (
	shellBlock = regexp.MustCompile("(?ms)^ *```(sh|console)\n(.*?)^ *```$")
)

// documentation are the README and the pages of the docs, by path.
func documentation(t *testing.T) []string {
	t.Helper()
	files := []string{"../../../../README.md"}
	for _, pattern := range []string{"../../../../docs/*.md", "../../../../docs/dev/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		files = append(files, found...)
	}
	return files
}

// documented are the calls of the plugin in the shell blocks of the README and the documentation: arguments by page. What only a shell can
// work out is "X".
func documented(t *testing.T) map[string][][]string {
	t.Helper()
	out := map[string][][]string{}
	for _, page := range documentation(t) {
		content, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range shellBlock.FindAllStringSubmatch(string(content), -1) {
			script := block[2]
			if block[1] == "console" {
				script = ""
				for line := range strings.Lines(block[2]) {
					if command, ok := strings.CutPrefix(line, "$ "); ok {
						script += command
					}
				}
			}
			file, err := syntax.NewParser().Parse(strings.NewReader(script), page)
			if err != nil {
				t.Errorf("a shell block does not parse: %v\n%s", err, script)
				continue
			}
			syntax.Walk(file, func(n syntax.Node) bool {
				if call, ok := n.(*syntax.CallExpr); ok {
					if args, ok := argsOf(call); ok {
						out[page] = append(out[page], args)
					}
				}
				return true
			})
		}
	}
	return out
}

// argsOf are the plugin's arguments in a command that calls it.
func argsOf(call *syntax.CallExpr) ([]string, bool) {
	words := make([]string, len(call.Args))
	for i, arg := range call.Args {
		if words[i] = arg.Lit(); words[i] == "" {
			words[i] = "X"
		}
	}
	switch {
	case len(words) > 1 && words[0] == "kubectl" && words[1] == "trellis":
		return words[2:], true
	case len(words) > 0 && filepath.Base(words[0]) == "kubectl-trellis":
		return words[1:], true
	}
	return nil, false
}

// TestDocumentedCommandsExist: every documented call of the plugin is of a command that there is, with flags and a number of arguments that it
// takes.
func TestDocumentedCommandsExist(t *testing.T) {
	found := 0
	for page, calls := range documented(t) {
		for _, args := range calls {
			found++
			root := plugin.NewCommand(genericiooptions.NewTestIOStreamsDiscard(), command.New())
			cmd, rest, err := root.Find(args)
			if err == nil && (cmd == root || !cmd.Runnable()) && !slices.Contains(args, "--help") {
				err = errors.New("there is no such command")
			}
			if err == nil && cmd.Name() != "__complete" {
				if err = cmd.ParseFlags(rest); err == nil {
					err = cmd.ValidateArgs(cmd.Flags().Args())
				}
			}
			if err != nil {
				t.Errorf("%s: kubectl trellis %s: %v", page, strings.Join(args, " "), err)
			}
		}
	}
	if found < 20 {
		t.Errorf("this test finds %d commands of the plugin only", found)
	}
}

var flagSpan = regexp.MustCompile("`(--[a-z][a-z-]+)[`= ]")

// others are flags that the pages name and that are in no flag set: those that the operator's main adds, and flags
// of kubectl and of inference frameworks.
var others = []string{
	"--zap-log-level", "--version",
	"--force-conflicts",
	"--cascade", "--request-plane", "--load-format", "--enable-elastic-ep", "--distributed-executor-backend",
}

// TestDocumentedFlagsExist: a flag that a page names in passing is one of the operator, of the plugin, or of a program that is known here.
func TestDocumentedFlagsExist(t *testing.T) {
	known := map[string]bool{"help": true}
	operatorFlags := pflag.NewFlagSet("", pflag.ContinueOnError)
	(&operator.Options{}).AddFlags(operatorFlags)
	note := func(f *pflag.Flag) { known[f.Name] = true }
	operatorFlags.VisitAll(note)
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		cmd.Flags().VisitAll(note)
		cmd.PersistentFlags().VisitAll(note)
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(plugin.NewCommand(genericiooptions.NewTestIOStreamsDiscard(), command.New()))
	found := 0
	for _, page := range documentation(t) {
		content, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, flag := range flagSpan.FindAllStringSubmatch(string(content), -1) {
			if found++; !known[flag[1][2:]] && !slices.Contains(others, flag[1]) {
				t.Errorf("%s: there is no flag %s", page, flag[1])
			}
		}
	}
	if found < 50 {
		t.Errorf("this test finds %d flags only", found)
	}
}
