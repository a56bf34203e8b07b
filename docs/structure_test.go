// Copyright The Trellis Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Bounds of hand-written code.
const (
	maxFileLines     = 300
	maxFunctionLines = 64
)

// clients is what a pure package must not reach, not even through others. The interfaces of conversion are all that controller-runtime has
// in common with the API types.
var clients = regexp.MustCompile(`^(k8s\.io/client-go/(kubernetes|rest|dynamic|discovery|tools/cache|informers)|sigs\.k8s\.io/controller-runtime)(/|$)`)

const conversionInterfaces = "sigs.k8s.io/controller-runtime/pkg/conversion"

// purePackages are those that the list of docs/dev/architecture.md calls pure.
func purePackages(t *testing.T) []string {
	t.Helper()
	page, err := os.ReadFile("dev/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, item := range strings.Split(string(page), "\n- **")[1:] {
		item, _, _ = strings.Cut(item, "\n\n")
		names, text, _ := strings.Cut(item, "**: ")
		if !strings.Contains(text, "Pure") {
			continue
		}
		for _, name := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(names, -1) {
			before, rest, several := strings.Cut(name[1], "{")
			if !several {
				out = append(out, name[1])
				continue
			}
			for _, one := range strings.Split(strings.TrimSuffix(rest, "}"), ",") {
				out = append(out, before+one)
			}
		}
	}
	if len(out) < 12 {
		t.Fatalf("the list of architecture.md has only %d pure packages: %v", len(out), out)
	}
	return out
}

func TestPurePackagesReachNoClient(t *testing.T) {
	linter, err := os.ReadFile(filepath.Join(root, ".golangci.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range purePackages(t) {
		if !strings.HasPrefix(name, "api/") && !strings.Contains(string(linter), `"**/`+name+`/*.go"`) {
			t.Errorf("%s is pure, and the linter does not keep it so: add it to the rule pure in .golangci.yaml", name)
		}
		list := exec.CommandContext(t.Context(), "go", "list", "-deps", "./"+name)
		list.Dir = root
		deps, err := list.Output()
		if err != nil {
			t.Fatalf("listing what %s imports: %v", name, err)
		}
		for _, dep := range strings.Fields(string(deps)) {
			if clients.MatchString(dep) && dep != conversionInterfaces {
				t.Errorf("%s is pure and reaches %s", name, dep)
			}
		}
	}
}

func TestFilesAndFunctionsAreShort(t *testing.T) {
	for _, folder := range []string{"api", "cmd", "internal", "hack"} {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.HasPrefix(entry.Name(), "zz_") {
				return err
			}
			set := token.NewFileSet()
			file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			types := strings.HasSuffix(path, "_types.go") // schemas with their documentation
			if lines := set.File(file.Pos()).LineCount(); lines > maxFileLines && !types {
				t.Errorf("%s has %d lines, more than %d", path, lines, maxFileLines)
			}
			for _, decl := range file.Decls {
				if f, ok := decl.(*ast.FuncDecl); ok {
					if lines := set.Position(f.End()).Line - set.Position(f.Pos()).Line + 1; lines > maxFunctionLines {
						t.Errorf("%s: %s has %d lines, more than %d", path, f.Name.Name, lines, maxFunctionLines)
					}
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

var (
	// codeOrQuote is a named test, other code, or a quotation.
	codeOrQuote = regexp.MustCompile("`((?:Test|Fuzz)[A-Z][A-Za-z0-9]*)`|`[^`\n]+`|\"([^\"]+)\"")
	testFunc    = regexp.MustCompile(`^(Test|Fuzz)[A-Z][A-Za-z0-9]*$`)
)

// testFolders are the folders of each test function, and of each text of specs.
func testFolders(t *testing.T) map[string][]string {
	t.Helper()
	folders := map[string][]string{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		names := specTexts(file)
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && testFunc.MatchString(f.Name.Name) {
				names = append(names, f.Name.Name)
			}
		}
		folder, err := filepath.Rel(root, filepath.Dir(path))
		for _, name := range names {
			folders[name] = append(folders[name], folder)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return folders
}

// Tests that the pages on reliability and security name are there, in the folder that is named before them if one is: a function, or a spec by
// the text of its Describe, It, table or entry.
func TestNamedTestsAreThere(t *testing.T) {
	folders := testFolders(t)
	all := pages(t)
	for _, page := range []string{"dev/reliability.md", "dev/security.md"} {
		found := mentions(all[page])
		if len(found) < 20 {
			t.Errorf("%s names only %d tests", page, len(found))
		}
		for _, test := range found {
			in := folders[test.name]
			if len(in) == 0 || test.folder != "" && !slices.Contains(in, test.folder) {
				t.Errorf("%s names %s %s; there are %v", page, test.folder, test.name, in)
			}
		}
	}
}

var namedFolder = regexp.MustCompile("`((?:api|cmd|docs|hack|internal|test)/[a-z0-9/]+)`")

// folderBefore is the last folder that a text names in its item of a list; "" where there is none.
func folderBefore(text string) string {
	item := text[max(strings.LastIndex(text, "\n- "), strings.LastIndex(text, "\n\n"), strings.LastIndex(text, "\n| "), 0):]
	found := namedFolder.FindAllStringSubmatch(item, -1)
	if len(found) == 0 {
		return ""
	}
	return found[len(found)-1][1]
}
