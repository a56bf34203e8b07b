// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"go/ast"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// section is a part of a page: from a heading to the next one of the same level.
func section(t *testing.T, page, heading string) string {
	t.Helper()
	_, text, found := strings.Cut(pages(t)[page], "\n"+heading+"\n")
	if !found {
		t.Fatalf("%s has no heading %q any more", page, heading)
	}
	level, _, _ := strings.Cut(heading, " ")
	text, _, _ = strings.Cut(text, "\n"+level+" ")
	return text
}

// TestGoTestsInProseExist: a command of go test in a sentence names a package and a function that are there, as those of shell blocks do.
func TestGoTestsInProseExist(t *testing.T) {
	found := 0
	for page, content := range pages(t) {
		for _, code := range span.FindAllString(fence.ReplaceAllString(content, ""), -1) {
			words := strings.Fields(strings.Trim(code, "`"))
			if len(words) < 5 || words[0] != "go" || words[1] != "test" {
				continue
			}
			found++
			folder := packagesOf(words)
			files, err := filepath.Glob(filepath.Join(root, folder, "*_test.go"))
			if err != nil || len(files) == 0 {
				t.Errorf("%s: %s: there is no such package with tests", page, code)
			}
			for at, word := range words[:len(words)-1] {
				function, _, _ := strings.Cut(words[at+1], "/") // what follows is a subtest
				if kind := map[string]string{"-run": "Test", "-bench": "Benchmark"}[word]; kind != "" && !hasFunction(t, files, kind, function) {
					t.Errorf("%s: %s: there is no such function", page, code)
				}
			}
		}
	}
	if found == 0 {
		t.Error("this test finds no commands any more")
	}
}

// TestQuotedLogLinesAreThere: what the section on logs quotes is logged by the scheduler.
func TestQuotedLogLinesAreThere(t *testing.T) {
	var logged []string
	for _, file := range sources(t, "internal/scheduler") {
		ast.Inspect(file, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok && called(call) == "Info" && len(call.Args) > 0 {
				if line, ok := text(call.Args[0]); ok {
					logged = append(logged, line)
				}
			}
			return true
		})
	}
	quoted := regexp.MustCompile(`"([^"]+)"`).FindAllStringSubmatch(strings.Join(strings.Fields(section(t, "events-and-metrics.md", "## Logs")), " "), -1)
	if len(quoted) < 3 {
		t.Errorf("the section quotes %d lines only", len(quoted))
	}
	for _, line := range quoted {
		if !slices.Contains(logged, line[1]) {
			t.Errorf("events-and-metrics.md quotes %q, which nothing logs", line[1])
		}
	}
}

// TestGeneratedFilesAreListed: development.md lists every generated Go file of the API, and no pattern without files.
func TestGeneratedFilesAreListed(t *testing.T) {
	var listed []string
	for _, item := range regexp.MustCompile(`(?m)^- \*\*(.*?)\*\*`).FindAllStringSubmatch(section(t, "dev/development.md", "## Generated files"), -1) {
		for _, pattern := range span.FindAllString(item[1], -1) {
			files, err := filepath.Glob(filepath.Join(root, strings.Trim(pattern, "`")))
			if err != nil || len(files) == 0 {
				t.Errorf("development.md: there is no file %s (%v)", pattern, err)
			}
			listed = append(listed, files...)
		}
	}
	err := filepath.WalkDir(filepath.Join(root, "api"), func(path string, entry fs.DirEntry, err error) error {
		if err == nil && strings.HasPrefix(entry.Name(), "zz_generated") && !slices.Contains(listed, path) {
			t.Errorf("development.md does not list the generated file %s", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestHashLeavesOutWhatThePageSays: of a component, the hash of its templates leaves out the fields that docs/dev/architecture.md names.
func TestHashLeavesOutWhatThePageSays(t *testing.T) {
	_, list, _ := strings.Cut(section(t, "dev/architecture.md", "## Pod templates across versions"), "the component without")
	list, _, _ = strings.Cut(list, "\n- ")
	found := 0
	for path, file := range sources(t, "internal/render") {
		if filepath.Base(path) != "templateinput.go" {
			continue
		}
		ast.Inspect(file, func(n ast.Node) bool {
			assign, ok := n.(*ast.AssignStmt)
			if !ok {
				return true
			}
			for i, left := range assign.Lhs {
				field, isField := left.(*ast.SelectorExpr)
				if !isField || i >= len(assign.Rhs) {
					continue
				}
				if value, ok := assign.Rhs[i].(*ast.Ident); !ok || value.Name != "nil" {
					continue
				}
				found++
				if name := strings.ToLower(field.Sel.Name[:1]) + field.Sel.Name[1:]; !strings.Contains(list, "`"+name+"`") {
					t.Errorf("docs/dev/architecture.md does not say that the hash leaves `%s` out", name)
				}
			}
			return true
		})
	}
	if found == 0 {
		t.Error("this test does not find what the hash leaves out any more")
	}
}

// TestNamedFilesAreThere: a file of the repository that a page names is there.
func TestNamedFilesAreThere(t *testing.T) {
	named := regexp.MustCompile("^`((?:api|charts|cmd|config|docs|hack|internal|test)/[A-Za-z0-9_./-]+\\.(?:go|json|md|sh|svg|yaml))`$")
	found := 0
	for page, content := range pages(t) {
		if filepath.Base(page) == "CHANGELOG.md" {
			continue // speaks of files as they were
		}
		for _, code := range span.FindAllString(fence.ReplaceAllString(content, ""), -1) {
			if path := named.FindStringSubmatch(code); path != nil {
				found++
				if _, err := os.Stat(filepath.Join(root, path[1])); err != nil {
					t.Errorf("%s: %v", page, err)
				}
			}
		}
	}
	if found < 10 {
		t.Errorf("this test finds %d files only", found)
	}
}
