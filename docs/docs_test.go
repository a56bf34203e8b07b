// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

// Package docs holds the documentation, and this test that it keeps up with the code: what users meet by name (conditions, reasons,
// metrics, flags, refusals of the schema) is described in a hand-written page, and links lead somewhere.
package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	root      = ".."
	generated = "api.md"
)

// pages are the README and everything in this folder and in dev, by path.
func pages(t *testing.T) map[string]string {
	t.Helper()
	var files []string
	for _, pattern := range []string{"*.md", "dev/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		files = append(files, found...)
	}
	for _, name := range []string{"README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"} {
		files = append(files, filepath.Join(root, name))
	}
	out := map[string]string{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		out[file] = string(data)
	}
	return out
}

// sources are the parsed Go files below some folders, without tests and generated ones.
func sources(t *testing.T, folders ...string) map[string]*ast.File {
	t.Helper()
	out := map[string]*ast.File{}
	for _, folder := range folders {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.HasPrefix(entry.Name(), "zz_") {
				return err
			}
			out[path], err = parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// text is the value of a string literal.
func text(e ast.Expr) (string, bool) {
	literal, ok := e.(*ast.BasicLit)
	if !ok || literal.Kind != token.STRING {
		return "", false
	}
	s, err := strconv.Unquote(literal.Value)
	return s, err == nil
}

var namedConstant = regexp.MustCompile(`^(Condition|Reason|Code|Event)[A-Z]`)

// names are what users meet by name, and where the code says it.
func names(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for path, file := range sources(t, "api", "internal") {
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ValueSpec: // condition types, reasons, codes, reasons of events
				for i, name := range n.Names {
					if i >= len(n.Values) || !namedConstant.MatchString(name.Name) {
						continue
					}
					if value, ok := text(n.Values[i]); ok {
						out[value] = path
					}
				}
			case *ast.CallExpr: // the reason of an event
				if f, ok := n.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "Eventf" && len(n.Args) > 3 {
					if value, ok := text(n.Args[3]); ok {
						out[value] = path
					}
				}
			case *ast.BasicLit:
				if value, ok := text(n); ok && strings.HasPrefix(value, "trellis_") {
					out[value] = path
				}
			}
			return true
		})
	}
	return out
}

func TestNamesAreDocumented(t *testing.T) {
	all := names(t)
	for _, sure := range []string{"Ready", "all_resources_are_ready", "InsufficientCapacity", "Requeued", "LabelsMissing", "trellis_graphs_waiting"} {
		if all[sure] == "" {
			t.Errorf("this test does not find %q in the code any more", sure)
		}
	}
	var spans []string
	for page, content := range pages(t) {
		if page != generated {
			spans = append(spans, span.FindAllString(content, -1)...)
		}
	}
	for name, path := range all {
		if !slices.Contains(spans, "`"+name+"`") {
			t.Errorf("`%s` (%s) is in no hand-written page", name, path)
		}
	}
}

func TestFlagsAreDocumented(t *testing.T) {
	install := pages(t)["install.md"]
	found := 0
	for _, file := range sources(t, "internal/operator") {
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) < 3 {
				return true
			}
			if f, ok := call.Fun.(*ast.SelectorExpr); !ok || !strings.HasSuffix(f.Sel.Name, "Var") {
				return true
			}
			if flag, ok := text(call.Args[1]); ok {
				found++
				if !strings.Contains(install, "`--"+flag+"`") {
					t.Errorf("install.md lacks `--%s`", flag)
				}
			}
			return true
		})
	}
	if found == 0 {
		t.Error("this test does not find the manager's flags any more")
	}
}

var (
	celMessage = regexp.MustCompile(`\+kubebuilder:validation:XValidation:.*message="([^"]+)"`)
	endOfCore  = regexp.MustCompile(`[:;,]`)
)

// TestSchemaRefusalsAreDocumented looks for the first part of every message, up to its first punctuation mark.
func TestSchemaRefusalsAreDocumented(t *testing.T) {
	admission := pages(t)["admission.md"]
	found := 0
	for path, file := range sources(t, "api") {
		for _, comment := range file.Comments {
			for _, line := range comment.List {
				message := celMessage.FindStringSubmatch(line.Text)
				if message == nil {
					continue
				}
				found++
				if core := strings.TrimSpace(endOfCore.Split(message[1], 2)[0]); !strings.Contains(admission, core) {
					t.Errorf("admission.md lacks %q (%s)", core, path)
				}
			}
		}
	}
	if found == 0 {
		t.Error("this test does not find the schema's messages any more")
	}
}

// TestIdleFieldsAreDocumented: what is accepted and not acted on is listed.
func TestIdleFieldsAreDocumented(t *testing.T) {
	admission := pages(t)["admission.md"]
	_, list, _ := strings.Cut(admission, "### Accepted but not acted on")
	list, _, _ = strings.Cut(list, "\n## ")
	found := 0
	check := func(e ast.Expr) {
		if field, ok := text(e); ok {
			found++
			if field = strings.TrimPrefix(field, "spec."); !strings.Contains(list, "`"+field+"`") {
				t.Errorf("admission.md does not list `%s` among what is not acted on", field)
			}
		}
	}
	for path, file := range sources(t, "internal/render") {
		if filepath.Base(path) != "notactedon.go" {
			continue
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CompositeLit:
				for _, e := range n.Elts {
					check(e)
				}
			case *ast.CallExpr:
				if f, ok := n.Fun.(*ast.Ident); ok && f.Name == "add" && len(n.Args) == 2 {
					check(n.Args[1])
				}
			}
			return true
		})
	}
	if found == 0 {
		t.Error("this test does not find the fields any more")
	}
}

var (
	fence   = regexp.MustCompile("(?ms)^```.*?^```$")
	span    = regexp.MustCompile("`[^`\n]+`")
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ +(.+?) *$`)
	noSlug  = regexp.MustCompile(`[^\p{L}\p{N}\-_ ]`)
)

// anchors of a page, as GitHub makes them.
func anchors(content string) []string {
	var out []string
	for _, h := range heading.FindAllStringSubmatch(fence.ReplaceAllString(content, ""), -1) {
		out = append(out, strings.ReplaceAll(noSlug.ReplaceAllString(strings.ToLower(h[1]), ""), " ", "-"))
	}
	return out
}

func TestLinksLeadSomewhere(t *testing.T) {
	for page, content := range pages(t) {
		for _, found := range link.FindAllStringSubmatch(span.ReplaceAllString(fence.ReplaceAllString(content, ""), "code"), -1) {
			target, anchor, _ := strings.Cut(found[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			path := page
			if target != "" {
				path = filepath.Join(filepath.Dir(page), target)
			}
			if _, err := os.Stat(path); err != nil {
				t.Errorf("%s: link to %s: %v", page, found[1], err)
				continue
			}
			if anchor == "" {
				continue
			}
			other, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Contains(anchors(string(other)), anchor) {
				t.Errorf("%s: link to %s: there is no such heading", page, found[1])
			}
		}
	}
}

// TestProseIsWrapped: a line ends within 100 characters, unless what makes it longer cannot be broken.
func TestProseIsWrapped(t *testing.T) {
	const width = 100
	for file, text := range pages(t) {
		if filepath.Base(file) == generated {
			continue
		}
		code := false
		for i, line := range strings.Split(text, "\n") {
			if strings.HasPrefix(strings.TrimSpace(line), "```") {
				code = !code
			}
			prose := !code && !strings.HasPrefix(line, "|") && !strings.ContainsAny(line, "`<") && !strings.Contains(line, "](")
			if prose && len([]rune(line)) > width {
				t.Errorf("%s:%d has %d characters, more than %d", file, i+1, len([]rune(line)), width)
			}
		}
	}
}
