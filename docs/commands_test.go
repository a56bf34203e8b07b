// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"

	"github.com/trellis-k8s/trellis/internal/cli/files"
)

var codeBlock = regexp.MustCompile("(?ms)^```([a-z]*)\n(.*?)^```$")

// scripts are the shell blocks of a page; of a transcript, the commands.
func scripts(content string) []string {
	var out []string
	for _, block := range codeBlock.FindAllStringSubmatch(content, -1) {
		switch block[1] {
		case "sh":
			out = append(out, block[2])
		case "console":
			for line := range strings.Lines(block[2]) {
				if command, ok := strings.CutPrefix(line, "$ "); ok {
					out = append(out, command)
				}
			}
		}
	}
	return out
}

// commandsIn are the commands of a shell script, word by word; a word that only a shell can work out is "X".
func commandsIn(t *testing.T, page, script string) [][]string {
	t.Helper()
	file, err := syntax.NewParser().Parse(strings.NewReader(script), page)
	if err != nil {
		t.Errorf("%s: a shell block does not parse: %v\n%s", page, err, script)
		return nil
	}
	var out [][]string
	syntax.Walk(file, func(n syntax.Node) bool {
		if call, ok := n.(*syntax.CallExpr); ok && len(call.Args) > 0 {
			words := make([]string, len(call.Args))
			for i, arg := range call.Args {
				if words[i] = arg.Lit(); words[i] == "" {
					words[i] = "X"
				}
			}
			out = append(out, words)
		}
		return true
	})
	return out
}

// pluginArgs are the arguments of a call of the plugin.
func pluginArgs(words []string) ([]string, bool) {
	switch {
	case words[0] == "kubectl" && len(words) > 1 && words[1] == "trellis":
		return words[2:], true
	case filepath.Base(words[0]) == "kubectl-trellis":
		return words[1:], true
	}
	return nil, false
}

// TestCommandsExist: every command of the plugin in a shell block is one that there is, with flags that it has, and every target of make is
// in the Makefile.
func TestCommandsExist(t *testing.T) {
	plugin := filepath.Join(t.TempDir(), "kubectl-trellis")
	if out, err := exec.Command("go", "build", "-o", plugin, "../cmd/kubectl-trellis").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	tried := 0
	for page, content := range pages(t) {
		for _, script := range scripts(content) {
			for _, words := range commandsIn(t, page, script) {
				if words[0] == "make" {
					for _, target := range words[1:] {
						if regexp.MustCompile(`^[a-z-]+$`).MatchString(target) && !regexp.MustCompile(`(?m)^(\.PHONY:.* )?`+target+`( .*)?:`).Match(makefile) {
							t.Errorf("%s: make %s: there is no such target", page, target)
						}
					}
				}
				args, ok := pluginArgs(words)
				if !ok {
					continue
				}
				tried++
				checkHelp(t, plugin, page, args)
			}
		}
	}
	if tried < 20 {
		t.Errorf("this test finds %d commands of the plugin only", tried)
	}
}

// checkHelp asks for the help of a command with its flags: a flag that it lacks is refused before, and the usage names the command.
func checkHelp(t *testing.T, plugin, page string, args []string) {
	t.Helper()
	out, err := exec.Command(plugin, append(slices.Clone(args), "--help")...).CombinedOutput()
	path := "kubectl trellis"
	for _, word := range args {
		if strings.HasPrefix(word, "-") || !regexp.MustCompile(`^[a-z]+$`).MatchString(word) {
			break
		}
		path += " " + word
	}
	if err != nil || !strings.Contains(string(out), "\n  "+path) {
		t.Errorf("%s: %q: %v: the help is not of %q:\n%s", page, args, err, path, out)
	}
}

// TestManifestsAreRead: every object of ours in a YAML block, or in a here-document of a shell block, is one that the plugin reads: of a
// known version, without unknown fields.
func TestManifestsAreRead(t *testing.T) {
	found := 0
	for page, content := range pages(t) {
		var manifests []string
		for _, block := range codeBlock.FindAllStringSubmatch(content, -1) {
			if block[1] == "yaml" {
				manifests = append(manifests, block[2])
			}
		}
		for _, script := range scripts(content) {
			file, err := syntax.NewParser().Parse(strings.NewReader(script), page)
			if err != nil {
				continue // TestCommandsExist says so
			}
			syntax.Walk(file, func(n syntax.Node) bool {
				if r, ok := n.(*syntax.Redirect); ok && r.Hdoc != nil {
					manifests = append(manifests, r.Hdoc.Lit())
				}
				return true
			})
		}
		for _, manifest := range manifests {
			if !strings.HasPrefix(manifest, "apiVersion: ") {
				continue // a part of an object
			}
			objects, _, err := files.Read([]string{files.Stdin}, strings.NewReader(manifest))
			if err != nil {
				t.Errorf("%s: %v\n%s", page, err, manifest)
			}
			found += len(objects)
		}
	}
	if found < 14 {
		t.Errorf("this test finds %d objects only", found)
	}
}

// narrow pages have tables that are read in a terminal, too.
var narrow = []string{"../README.md", "concepts.md", "cookbook.md"}

const widestCell = 80

func TestTableCellsAreNarrow(t *testing.T) {
	all := pages(t)
	for _, page := range narrow {
		for line := range strings.Lines(codeBlock.ReplaceAllString(all[page], "")) {
			if !strings.HasPrefix(line, "|") {
				continue
			}
			for cell := range strings.SplitSeq(link.ReplaceAllString(line, "]"), "|") {
				if cell = strings.TrimSpace(cell); utf8.RuneCountInString(cell) > widestCell {
					t.Errorf("%s: a cell of %d characters: %s", page, utf8.RuneCountInString(cell), cell)
				}
			}
		}
	}
}
