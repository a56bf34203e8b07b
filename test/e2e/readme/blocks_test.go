// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package readme

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// root of the clone.
const root = "../../.."

// generatedPage is written by a program and has no commands.
const generatedPage = "docs/api.md"

// Marks of a block, as an HTML comment in the line above it. A block without a mark is run here.
var (
	notRun = regexp.MustCompile(`^ *<!-- not run: (.*) -->$`)
	runBy  = regexp.MustCompile(`^ *<!-- run by (\w+|"[^"]+") -->$`)
	anyRun = regexp.MustCompile(`^ *<!--.*\brun\b.*-->$`)
	fence  = regexp.MustCompile("^( *)```(.*)$")
)

// reasons why a block is not run. docs/dev/development.md explains them.
var reasons = []string{
	"is a test itself", "needs Argo CD", "needs Kueue", "needs LeaderWorkerSet", "needs a registry", "needs an update in progress",
	"needs an earlier release", "needs replicas that may move", "needs the Dynamo operator", "needs the peers' definitions",
	"starts another sandbox", "takes minutes", "writes generated files",
}

// block is a fenced code block of a page.
type block struct {
	page string
	line int
	// lang is sh for commands, console for commands with their output.
	lang, text string
	// why it is not run, or the test that runs it elsewhere: a function, or the text of a spec in quotes.
	why, elsewhere string
	done           bool
}

func (b *block) String() string { return fmt.Sprintf("%s:%d", b.page, b.line) }

// commands: a reader is to type something of this block.
func (b *block) commands() bool {
	return b.lang == "sh" || b.lang == "console" || strings.HasPrefix(b.text, "$ ")
}

// page parses the blocks of a page. The indent of a list is taken off.
func page(name, content string) (blocks []*block, problems []string) {
	var open *block
	var above, indent string
	for i, line := range strings.Split(content, "\n") {
		found := fence.FindStringSubmatch(line)
		switch {
		case open == nil && found != nil:
			open = &block{page: name, line: i + 1, lang: strings.TrimSpace(found[2])}
			indent = found[1]
			if problem := open.mark(above); problem != "" {
				problems = append(problems, fmt.Sprintf("%s:%d: %s", name, i, problem))
			}
		case open == nil && anyRun.MatchString(above):
			problems = append(problems, fmt.Sprintf("%s:%d: %q is above no code block", name, i, strings.TrimSpace(above)))
		case open == nil:
		case found != nil:
			blocks, open = append(blocks, open), nil
		default:
			open.text += strings.TrimPrefix(line, indent) + "\n"
		}
		above = line
	}
	if open != nil {
		problems = append(problems, fmt.Sprintf("%s: the block does not end", open))
	}
	return blocks, problems
}

// mark reads the line above a block. It returns what is wrong with it.
func (b *block) mark(above string) string {
	if found := notRun.FindStringSubmatch(above); found != nil {
		b.why = found[1]
		if !slices.Contains(reasons, b.why) {
			return fmt.Sprintf("%q is none of the reasons %q", b.why, reasons)
		}
		return ""
	}
	if found := runBy.FindStringSubmatch(above); found != nil {
		b.elsewhere = found[1]
		return ""
	}
	if anyRun.MatchString(above) {
		return fmt.Sprintf("%q is no mark", above)
	}
	return ""
}

// read returns the blocks of every page that a reader is to type something of.
func read(t *testing.T) []*block {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil || len(files) < 10 {
		t.Fatal(files, err)
	}
	dev, err := filepath.Glob(filepath.Join(root, "docs", "dev", "*.md"))
	if err != nil || len(dev) == 0 {
		t.Fatal(dev, err)
	}
	files = append(files, dev...)
	for _, name := range []string{"README.md", "CONTRIBUTING.md", "SECURITY.md"} {
		files = append(files, filepath.Join(root, name))
	}
	var commands []*block
	for _, file := range files {
		name, err := filepath.Rel(root, file)
		if err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		blocks, problems := page(filepath.ToSlash(name), string(content))
		for _, problem := range problems {
			t.Error(problem)
		}
		for _, b := range blocks {
			if b.commands() {
				commands = append(commands, b)
			} else if name != generatedPage && b.hidden() {
				t.Errorf("%s has commands; begin it with ```sh or ```console", b)
			}
		}
	}
	return commands
}

// hidden: the block looks like commands and does not say so.
func (b *block) hidden() bool {
	known := []string{"", "go", "json", "mermaid", "yaml"}
	typed := regexp.MustCompile(`(?m)^(kubectl|make|helm|go (run|test|tool)) `)
	return !slices.Contains(known, b.lang) || b.lang == "" && typed.MatchString(b.text)
}

// tests are the names of all test functions of the repository, and the texts of specs in quotes.
func tests(t *testing.T) map[string]bool {
	t.Helper()
	named := regexp.MustCompile(`(?m)^func (Test\w+)\(|\b(?:Describe|It|DescribeTable)\(("[^"\n]+")`)
	names := map[string]bool{}
	for _, folder := range []string{"cmd", "docs", "hack", "internal", "test"} {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			content, err := os.ReadFile(path)
			for _, found := range named.FindAllStringSubmatch(string(content), -1) {
				names[found[1]+found[2]] = true
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return names
}

// TestEveryBlockIsRun: a block of commands has no mark, and TestDocumentation runs it, or a mark with a known reason, or the name of a test.
func TestEveryBlockIsRun(t *testing.T) {
	blocks, known := read(t), tests(t)
	if len(blocks) < 50 {
		t.Errorf("this test finds %d blocks only", len(blocks))
	}
	left := map[string]bool{}
	for _, b := range blocks {
		if b.elsewhere != "" && !known[b.elsewhere] {
			t.Errorf("%s: there is no test %s", b, b.elsewhere)
		}
		left[b.why] = true
	}
	for _, reason := range reasons {
		if !left[reason] {
			t.Errorf("the reason %q is used nowhere", reason)
		}
	}
}

func TestMarks(t *testing.T) {
	for content, want := range map[string]string{
		"```sh\nmake\n```\n": "",
		"<!-- not run: takes minutes -->\n```sh\nmake\n```\n":          "",
		"<!-- run by TestTour -->\n```sh\nmake\n```\n":                 "",
		"<!-- run by \"makes it\" -->\n```sh\nmake\n```\n":             "",
		"<!-- a remark -->\n```sh\nmake\n```\n":                        "",
		"<!-- not run: no reason -->\n```sh\nmake\n```\n":              "is none of the reasons",
		"<!-- not run -->\n```sh\nmake\n```\n":                         "is no mark",
		"<!-- not run: takes minutes -->\n\nText.\n\n```sh\nmake\n```": "is above no code block",
		"```sh\nmake\n": "does not end",
	} {
		_, problems := page("page.md", content)
		if got := strings.Join(problems, "\n"); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%q: got %q, want %q", content, got, want)
		}
	}
	blocks, _ := page("page.md", "1. In a list:\n\n   <!-- run by TestX -->\n   ```sh\n   make \\\n     all\n   ```\n")
	if len(blocks) != 1 || blocks[0].text != "make \\\n  all\n" || blocks[0].elsewhere != "TestX" || blocks[0].line != 4 {
		t.Errorf("got %+v", blocks)
	}
}
