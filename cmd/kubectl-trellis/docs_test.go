// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"mvdan.cc/sh/v3/syntax"
)

var (
	shellBlock = regexp.MustCompile("(?ms)^```(sh|console)\n(.*?)^```$")
	plainWord  = regexp.MustCompile(`^[a-z]+$`)
)

// documented are the calls of the plugin in the shell blocks of the README and the documentation: arguments by page. What only a shell can
// work out is "X".
func documented(t *testing.T) map[string][][]string {
	t.Helper()
	files, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][][]string{}
	for _, page := range append(files, "../../README.md") {
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

// TestDocumentedCommandsExist asks for the help of every documented command, with its flags: a flag that it lacks is refused before, and
// the usage names the command.
func TestDocumentedCommandsExist(t *testing.T) {
	found := 0
	for page, calls := range documented(t) {
		for _, args := range calls {
			found++
			path := "kubectl trellis"
			for _, word := range args {
				if !plainWord.MatchString(word) {
					break
				}
				path += " " + word
			}
			out, err := run(t, append(args, "--help")...)
			if err != nil || !strings.Contains(out, "\n  "+path) {
				t.Errorf("%s: %q: %v: the help is not of %q:\n%s", page, args, err, path, out)
			}
		}
	}
	if found < 20 {
		t.Errorf("this test finds %d commands of the plugin only", found)
	}
}
