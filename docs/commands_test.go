// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"

	"github.com/trellis-k8s/trellis/internal/cli/files"
)

var codeBlock = regexp.MustCompile("(?ms)^ *```([a-z]*)\n(.*?)^ *```$")

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

// makefiles are the Makefile and what it includes.
func makefiles(t *testing.T) []byte {
	t.Helper()
	included, err := filepath.Glob(filepath.Join(root, "make", "*.mk"))
	if err != nil {
		t.Fatal(err)
	}
	var all []byte
	for _, file := range append(included, filepath.Join(root, "Makefile")) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, text...)
	}
	return all
}

// TestTargetsExist: every target of make in a shell block is in the Makefile or in what it includes.
func TestTargetsExist(t *testing.T) {
	makefile := makefiles(t)
	found := 0
	for page, content := range pages(t) {
		for _, script := range scripts(content) {
			for _, words := range commandsIn(t, page, script) {
				if words[0] != "make" {
					continue
				}
				for _, target := range words[1:] {
					if !regexp.MustCompile(`^[a-z-]+$`).MatchString(target) {
						continue // a variable
					}
					if found++; !regexp.MustCompile(`(?m)^` + target + `( .*)?:`).Match(makefile) {
						t.Errorf("%s: make %s: there is no such target", page, target)
					}
				}
			}
		}
	}
	if found == 0 {
		t.Error("this test finds no targets any more")
	}
}

// TestGoTestsExist: what go test is given in a shell block are packages of the repository, and functions of theirs.
func TestGoTestsExist(t *testing.T) {
	found := 0
	for page, content := range pages(t) {
		for _, script := range scripts(content) {
			for _, words := range commandsIn(t, page, script) {
				if len(words) < 3 || words[0] != "go" || words[1] != "test" {
					continue
				}
				found++
				given := packagesOf(words)
				folder := strings.TrimSuffix(given, "/...")
				files, err := filepath.Glob(filepath.Join(root, folder, "*_test.go"))
				if err != nil || len(files) == 0 && folder == given {
					t.Errorf("%s: go test %s: there is no such package with tests", page, given)
					continue
				}
				for i, word := range words[:len(words)-1] {
					if kind := map[string]string{"-run": "Test", "-bench": "Benchmark"}[word]; kind != "" && !hasFunction(t, files, kind, words[i+1]) {
						t.Errorf("%s: %s has no %s for %s %s", page, folder, kind, word, words[i+1])
					}
				}
			}
		}
	}
	if found < 8 {
		t.Errorf("this test finds %d commands only", found)
	}
}

// packagesOf are the packages that a command go test is given, as a folder of the repository: that of -C comes before it.
func packagesOf(words []string) string {
	if len(words) > 4 && words[2] == "-C" {
		return filepath.Join(words[3], words[4])
	}
	return words[2]
}

// hasFunction: one of the files has a test function whose name has this part. A word for the shell, and the documentation's own example of a
// name, are any.
func hasFunction(t *testing.T, files []string, kind, part string) bool {
	t.Helper()
	if part == "X" || part == "TestName" {
		return true
	}
	function := regexp.MustCompile(`(?m)^func ` + kind + `\w*\(`)
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range function.FindAllString(string(content), -1) {
			if strings.Contains(name, part) {
				return true
			}
		}
	}
	return false
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
				continue // TestTargetsExist reports it
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

// widestCell is how many characters a cell has at most: more is a list, which wraps in a terminal, too.
const widestCell = 80

func TestTableCellsAreNarrow(t *testing.T) {
	for page, content := range pages(t) {
		if page == generated {
			continue // its tables are the generator's
		}
		for line := range strings.Lines(codeBlock.ReplaceAllString(content, "")) {
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
